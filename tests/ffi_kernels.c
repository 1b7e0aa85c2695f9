/* Handlers that the tests of weft.ffi call: each shows one thing that goes through the interface. */

#include <stdio.h>
#include <stdlib.h>

#include "handler.h"

/* ---- what happened, for Python to ask ---------------------------------------------------------- */

#define MOST_NOTES 4096
static double notes[MOST_NOTES];
static int note_count = 0;

int notes_taken(void) { return __atomic_load_n(&note_count, __ATOMIC_SEQ_CST); }
double note_at(int i) { return notes[i]; }
void forget_notes(void) { __atomic_store_n(&note_count, 0, __ATOMIC_SEQ_CST); }

static void take_note(double value) {
  int i = __atomic_fetch_add(&note_count, 1, __ATOMIC_SEQ_CST);
  if (i < MOST_NOTES) notes[i] = value;
}

/* ---- attributes, as text ----------------------------------------------------------------------- */

typedef struct {
  char* text;
  size_t length, room;
} Text;

static void put(Text* out, const char* data, size_t length) {
  if (out->length + length > out->room) length = out->room - out->length;
  memcpy(out->text + out->length, data, length);
  out->length += length;
}

static void put_words(Text* out, const char* words) { put(out, words, strlen(words)); }

static size_t item_size(XLA_FFI_DataType dtype) {
  switch (dtype) {
    case XLA_FFI_DataType_S16: case XLA_FFI_DataType_U16:
    case XLA_FFI_DataType_F16: case XLA_FFI_DataType_BF16:
      return 2;
    case XLA_FFI_DataType_S32: case XLA_FFI_DataType_U32: case XLA_FFI_DataType_F32:
      return 4;
    case XLA_FFI_DataType_S64: case XLA_FFI_DataType_U64: case XLA_FFI_DataType_F64:
    case XLA_FFI_DataType_C64:
      return 8;
    case XLA_FFI_DataType_C128:
      return 16;
    default:
      return 1;
  }
}

static void put_bytes(Text* out, XLA_FFI_DataType dtype, size_t count, const void* data) {
  char digits[32];
  snprintf(digits, sizeof(digits), "%d ", (int)dtype);
  put_words(out, digits);
  for (size_t i = 0; i < count * item_size(dtype); ++i) {
    snprintf(digits, sizeof(digits), "%02x", ((const unsigned char*)data)[i]);
    put_words(out, digits);
  }
}

static void put_attributes(Text* out, const XLA_FFI_Attrs* attrs) {
  for (int64_t i = 0; i < attrs->size; ++i) {
    put(out, attrs->names[i]->ptr, attrs->names[i]->len);
    if (attrs->types[i] == XLA_FFI_AttrType_SCALAR) {
      const XLA_FFI_Scalar* scalar = attrs->attrs[i];
      put_words(out, " scalar ");
      put_bytes(out, scalar->dtype, 1, scalar->value);
    } else if (attrs->types[i] == XLA_FFI_AttrType_ARRAY) {
      const XLA_FFI_Array* array = attrs->attrs[i];
      put_words(out, " array ");
      put_bytes(out, array->dtype, array->size, array->data);
    } else if (attrs->types[i] == XLA_FFI_AttrType_STRING) {
      const XLA_FFI_ByteSpan* span = attrs->attrs[i];
      put_words(out, " string ");
      put(out, span->ptr, span->len);
    } else {
      put_words(out, " {\n");
      put_attributes(out, attrs->attrs[i]);
      put_words(out, "}");
    }
    put_words(out, "\n");
  }
}

/* Writes the attributes of the call into its one result, an array of bytes. */
XLA_FFI_Error* Describe(XLA_FFI_CallFrame* frame) {
  if (answers_metadata(frame)) return NULL;
  XLA_FFI_Buffer* out = result(frame, 0);
  Text text = {out->data, 0, (size_t)element_count(out)};
  memset(out->data, 0, text.room);
  put_attributes(&text, &frame->attrs);
  return NULL;
}

/* ---- values ------------------------------------------------------------------------------------ */

/* Results that are the operands, byte for byte. */
XLA_FFI_Error* Same(XLA_FFI_CallFrame* frame) {
  if (answers_metadata(frame)) return NULL;
  if (frame->args.size != frame->rets.size) return error(frame, "Same: other numbers of buffers");
  for (int64_t i = 0; i < frame->args.size; ++i) {
    XLA_FFI_Buffer *x = operand(frame, i), *y = result(frame, i);
    if (x->dtype != y->dtype || !same_shape(x, y)) return error(frame, "Same: other types");
    memcpy(y->data, x->data, element_count(x) * item_size(x->dtype));
  }
  return NULL;
}

/* Twice the operand; the second result says whether the first lies in the operand's memory. */
XLA_FFI_Error* Twice(XLA_FFI_CallFrame* frame) {
  if (answers_metadata(frame)) return NULL;
  const float* x = operand(frame, 0)->data;
  float* y = result(frame, 0)->data;
  for (int64_t i = 0; i < element_count(operand(frame, 0)); ++i) y[i] = 2 * x[i];
  *(int32_t*)result(frame, 1)->data = (const void*)x == (void*)y;
  return NULL;
}

/* The elements of each operand as they lie in memory, one operand behind the other. */
XLA_FFI_Error* Memory(XLA_FFI_CallFrame* frame) {
  if (answers_metadata(frame)) return NULL;
  float* out = result(frame, 0)->data;
  for (int64_t i = 0; i < frame->args.size; ++i) {
    int64_t count = element_count(operand(frame, i));
    memcpy(out, operand(frame, i)->data, count * sizeof(float));
    out += count;
  }
  return NULL;
}

/* 0, 1, 2, ... in the order in which the result lies in memory. */
XLA_FFI_Error* Counting(XLA_FFI_CallFrame* frame) {
  if (answers_metadata(frame)) return NULL;
  float* out = result(frame, 0)->data;
  for (int64_t i = 0; i < element_count(result(frame, 0)); ++i) out[i] = (float)i;
  return NULL;
}

/* x times scale, summed over the last dimension; operands of any further dimensions, of which those
   of length one in scale are repeated. Notes how many rows a call has. */
XLA_FFI_Error* ScaledSum(XLA_FFI_CallFrame* frame) {
  if (answers_metadata(frame)) return NULL;
  XLA_FFI_Buffer *x = operand(frame, 0), *scale = operand(frame, 1), *y = result(frame, 0);
  int64_t n = x->dims[x->rank - 1], rows = element_count(y);
  int64_t scales = element_count(scale) / n;
  take_note((double)rows);
  for (int64_t row = 0; row < rows; ++row) {
    const float* by = (const float*)scale->data + (scales == 1 ? 0 : row * n);
    float sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += ((const float*)x->data)[row * n + i] * by[i];
    ((float*)y->data)[row] = sum;
  }
  return NULL;
}

/* ---- effects and errors ------------------------------------------------------------------------ */

/* Notes the elements of its operand, if it has one. Results, if any, are how many notes there are. */
XLA_FFI_Error* Note(XLA_FFI_CallFrame* frame) {
  if (answers_metadata(frame)) return NULL;
  if (frame->args.size == 0) take_note(-1);
  for (int64_t i = 0; i < frame->args.size; ++i) {
    const float* x = operand(frame, i)->data;
    for (int64_t j = 0; j < element_count(operand(frame, i)); ++j) take_note(x[j]);
  }
  for (int64_t i = 0; i < frame->rets.size; ++i) *(int32_t*)result(frame, i)->data = notes_taken();
  return NULL;
}

/* The square root, which negative numbers do not have. */
XLA_FFI_Error* Root(XLA_FFI_CallFrame* frame) {
  if (answers_metadata(frame)) return NULL;
  const float* x = operand(frame, 0)->data;
  float* y = result(frame, 0)->data;
  for (int64_t i = 0; i < element_count(operand(frame, 0)); ++i) {
    if (x[i] < 0) return error(frame, "Root: a negative number has no root");
    y[i] = __builtin_sqrtf(x[i]);
  }
  return NULL;
}
