/* What a handler in plain C needs besides XLA's own header: answering the question for its version,
   making errors, and looking at operands, results and attributes. */

#ifndef HANDLER_H_
#define HANDLER_H_

#include <string.h>

#include "xla/ffi/api/c_api.h"

/* XLA calls a handler once when it is registered, to ask for the version of the interface that it
   was compiled against. Returns whether this is that call, and answers it. */
static inline int answers_metadata(XLA_FFI_CallFrame* frame) {
  /* The struct has had two names. */
  __typeof__(frame->extension_start) extension = frame->extension_start;
  if (extension == NULL || extension->type != XLA_FFI_Extension_Metadata) return 0;
  XLA_FFI_Metadata* metadata = ((XLA_FFI_Metadata_Extension*)extension)->metadata;
  metadata->api_version.struct_size = XLA_FFI_Api_Version_STRUCT_SIZE;
  metadata->api_version.major_version = XLA_FFI_API_MAJOR;
  metadata->api_version.minor_version = XLA_FFI_API_MINOR;
  metadata->traits = 0;
  return 1;
}

/* An error that the caller of the program gets, with this text. */
static inline XLA_FFI_Error* error(XLA_FFI_CallFrame* frame, const char* message) {
  XLA_FFI_Error_Create_Args args;
  memset(&args, 0, sizeof(args));
  args.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE;
  args.message = message;
  args.errc = XLA_FFI_Error_Code_INVALID_ARGUMENT;
  return frame->api->XLA_FFI_Error_Create(&args);
}

/* Whether the call has as many operands and results as the handler is going to look at. */
static inline int has_buffers(const XLA_FFI_CallFrame* frame, int64_t operands, int64_t results) {
  return frame->args.size == operands && frame->rets.size == results;
}

static inline XLA_FFI_Buffer* operand(XLA_FFI_CallFrame* frame, int64_t i) {
  return (XLA_FFI_Buffer*)frame->args.args[i];
}

static inline XLA_FFI_Buffer* result(XLA_FFI_CallFrame* frame, int64_t i) {
  return (XLA_FFI_Buffer*)frame->rets.rets[i];
}

static inline int64_t element_count(const XLA_FFI_Buffer* buffer) {
  int64_t count = 1;
  for (int64_t i = 0; i < buffer->rank; ++i) count *= buffer->dims[i];
  return count;
}

static inline int same_shape(const XLA_FFI_Buffer* a, const XLA_FFI_Buffer* b) {
  if (a->rank != b->rank) return 0;
  for (int64_t i = 0; i < a->rank; ++i) {
    if (a->dims[i] != b->dims[i]) return 0;
  }
  return 1;
}

/* The attribute of this name if it is a scalar of this type, else NULL. */
static inline const void* scalar_attribute(XLA_FFI_CallFrame* frame, const char* name,
                                           XLA_FFI_DataType dtype) {
  for (int64_t i = 0; i < frame->attrs.size; ++i) {
    const XLA_FFI_ByteSpan* own = frame->attrs.names[i];
    if (own->len != strlen(name) || memcmp(own->ptr, name, own->len) != 0) continue;
    if (frame->attrs.types[i] != XLA_FFI_AttrType_SCALAR) return NULL;
    const XLA_FFI_Scalar* scalar = (const XLA_FFI_Scalar*)frame->attrs.attrs[i];
    return scalar->dtype == dtype ? scalar->value : NULL;
  }
  return NULL;
}

#endif  /* HANDLER_H_ */
