/* Systems of linear equations with tridiagonal matrices, by elimination without pivoting (the Thomas
   algorithm: Conte and de Boor, Elementary Numerical Analysis, section 4.3). A recurrence in both
   directions: as array operations it would be two loops of tiny steps. */

#include <stdlib.h>

#include "handler.h"

/* Row i reads lower[i] x[i-1] + diagonal[i] x[i] + upper[i] x[i+1] = right[i]; of the transposed
   matrix, upper[i-1] x[i-1] + diagonal[i] x[i] + lower[i+1] x[i+1] = right[i]. */
#define DEFINE_SOLVE(NAME, REAL)                                                                 \
  static int NAME(int64_t n, int transposed, const REAL* lower, const REAL* diagonal,            \
                  const REAL* upper, const REAL* right, REAL* x, REAL* above) {                  \
    REAL pivot = 1;                                                                              \
    for (int64_t i = 0; i < n; ++i) {                                                            \
      REAL left = i == 0 ? 0 : transposed ? upper[i - 1] : lower[i];                             \
      REAL next = i == n - 1 ? 0 : transposed ? lower[i + 1] : upper[i];                         \
      pivot = diagonal[i] - (i == 0 ? 0 : left * above[i - 1]);                                  \
      if (pivot == 0) return 0;                                                                  \
      above[i] = next / pivot;                                                                   \
      x[i] = (right[i] - (i == 0 ? 0 : left * x[i - 1])) / pivot;                                \
    }                                                                                            \
    for (int64_t i = n - 2; i >= 0; --i) x[i] -= above[i] * x[i + 1];                            \
    return 1;                                                                                    \
  }

DEFINE_SOLVE(solve_float, float)
DEFINE_SOLVE(solve_double, double)

/* Operands: lower, diagonal, upper, right, all of one shape (..., n). Result: x of that shape.
   Attribute: transposed, a bool. */
XLA_FFI_Error* TridiagonalSolve(XLA_FFI_CallFrame* frame) {
  if (answers_metadata(frame)) return NULL;
  if (!has_buffers(frame, 4, 1)) return error(frame, "4 operands, 1 result");
  const XLA_FFI_Buffer* x = result(frame, 0);
  const char* data[4];
  for (int i = 0; i < 4; ++i) {
    const XLA_FFI_Buffer* own = operand(frame, i);
    if (own->dtype != x->dtype || !same_shape(own, x)) return error(frame, "operands of one type");
    data[i] = own->data;
  }
  const char* transposed = scalar_attribute(frame, "transposed", XLA_FFI_DataType_PRED);
  if (transposed == NULL) return error(frame, "transposed is a bool");
  if (x->rank == 0) return error(frame, "systems have one dimension at least");
  int is_double = x->dtype == XLA_FFI_DataType_F64;
  if (!is_double && x->dtype != XLA_FFI_DataType_F32) return error(frame, "float32 or float64");

  int64_t n = x->dims[x->rank - 1], count = element_count(x);
  size_t row = (size_t)n * (is_double ? sizeof(double) : sizeof(float));
  char* above = malloc(row + 1);
  if (above == NULL) return error(frame, "no memory");
  int solved = 1;
  for (int64_t i = 0; count > 0 && i < count / n && solved; ++i) {
    const void* at[4];
    for (int j = 0; j < 4; ++j) at[j] = data[j] + (size_t)i * row;
    void* own = (char*)x->data + (size_t)i * row;
    solved = is_double
        ? solve_double(n, *transposed, at[0], at[1], at[2], at[3], own, (double*)above)
        : solve_float(n, *transposed, at[0], at[1], at[2], at[3], own, (float*)above);
  }
  free(above);
  return solved ? NULL : error(frame, "a pivot is zero: the matrix is singular, or needs pivoting");
}
