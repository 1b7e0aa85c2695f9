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

/* Numbers of two and four bits lie packed, the first in the low bits. By their codes, which not all
   releases of the header have names for: S4, U4, F4E2M1FN; S2, U2. */
static size_t byte_count(XLA_FFI_DataType dtype, size_t count) {
  int code = (int)dtype;
  if (code == 21 || code == 22 || code == 32) return (count + 1) / 2;
  if (code == 26 || code == 27) return (count + 3) / 4;
  return count * item_size(dtype);
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
    memcpy(y->data, x->data, byte_count(x->dtype, element_count(x)));
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

/* ---- states ------------------------------------------------------------------------------------ */

/* A handler's state: a factor from its attributes, and how many runs have used it. */
typedef struct {
  float factor;
  int runs;
} Plan;

XLA_FFI_TypeId plan_type_id = {0};
static int plans_alive = 0, plans_made = 0;

int plans(int made) { return __atomic_load_n(made ? &plans_made : &plans_alive, __ATOMIC_SEQ_CST); }

static void drop_plan(void* plan) {
  __atomic_fetch_sub(&plans_alive, 1, __ATOMIC_SEQ_CST);
  free(plan);
}

XLA_FFI_TypeId* PlanTypeId(void) { return &plan_type_id; }
const XLA_FFI_TypeInfo* PlanTypeInfo(void) {
  static const XLA_FFI_TypeInfo info = {XLA_FFI_TypeInfo_STRUCT_SIZE, NULL, drop_plan};
  return &info;
}

XLA_FFI_Error* PlanInstantiate(XLA_FFI_CallFrame* frame) {
  if (answers_metadata(frame)) {
    ((XLA_FFI_Metadata_Extension*)frame->extension_start)->metadata->state_type_id = plan_type_id;
    return NULL;
  }
  const float* factor = scalar_attribute(frame, "factor", XLA_FFI_DataType_F32);
  if (factor == NULL || *factor < 0) return error(frame, "Plan: no factor, or a negative one");
  Plan* plan = calloc(1, sizeof(Plan));
  plan->factor = *factor;
  __atomic_fetch_add(&plans_alive, 1, __ATOMIC_SEQ_CST);
  __atomic_fetch_add(&plans_made, 1, __ATOMIC_SEQ_CST);
  XLA_FFI_State_Set_Args args = {XLA_FFI_State_Set_Args_STRUCT_SIZE, NULL, frame->ctx,
                                 XLA_FFI_ExecutionStage_INSTANTIATE, &plan_type_id, plan};
  return frame->api->XLA_FFI_State_Set(&args);
}

/* The operand times the factor in the plan; the second result says how often the plan was used. */
XLA_FFI_Error* PlanExecute(XLA_FFI_CallFrame* frame) {
  if (answers_metadata(frame)) return NULL;
  XLA_FFI_State_Get_Args args = {XLA_FFI_State_Get_Args_STRUCT_SIZE, NULL, frame->ctx,
                                 XLA_FFI_ExecutionStage_INSTANTIATE, &plan_type_id, NULL};
  XLA_FFI_Error* failed = frame->api->XLA_FFI_State_Get(&args);
  if (failed != NULL) return failed;
  Plan* plan = args.state;
  for (int64_t i = 0; i < element_count(operand(frame, 0)); ++i) {
    ((float*)result(frame, 0)->data)[i] =
        ((const float*)operand(frame, 0)->data)[i] * plan->factor;
  }
  *(int32_t*)result(frame, 1)->data = __atomic_add_fetch(&plan->runs, 1, __ATOMIC_SEQ_CST);
  return NULL;
}

/* The stages before the run itself, each noting its number. */
XLA_FFI_Error* NotePrepare(XLA_FFI_CallFrame* frame) {
  if (answers_metadata(frame)) return NULL;
  take_note(1);
  return NULL;
}

XLA_FFI_Error* NoteInitialize(XLA_FFI_CallFrame* frame) {
  if (answers_metadata(frame)) return NULL;
  take_note(2);
  return NULL;
}

/* ---- the interface before the typed one ---------------------------------------------------------- */

/* Three floats, doubled: XLA's versions 1, 2 and 3 of a call, of which the third has a text. */
void OldTwice(void* out, const void** in) {
  for (int i = 0; i < 3; ++i) ((float*)out)[i] = 2 * ((const float*)in[0])[i];
}

void OldTwiceWithStatus(void* out, const void** in, void* status) {
  (void)status;
  OldTwice(out, in);
}

/* Three floats times the number that the text is. */
void OldScaled(void* out, const void** in, const char* text, size_t length, void* status) {
  (void)status;
  char number[32] = {0};
  memcpy(number, text, length < 31 ? length : 31);
  for (int i = 0; i < 3; ++i) ((float*)out)[i] = atof(number) * ((const float*)in[0])[i];
}
