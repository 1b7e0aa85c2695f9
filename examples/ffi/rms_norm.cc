// RMS normalization (Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019) and the
// product of its transposed derivative with a vector, in C++17 with XLA's own header: operands,
// results and attributes are bound by type, and a call that does not fit is refused.

#include <cmath>
#include <cstdint>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

// y = x / sqrt(mean(x²) + eps) along the last dimension; the factor of each row is kept.
static ffi::Error Forward(float eps, ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y,
                          ffi::ResultBuffer<ffi::F32> factor) {
  if (x.dimensions().size() == 0) return ffi::Error::InvalidArgument("x has no dimension");
  const int64_t n = x.dimensions().back();
  for (size_t row = 0; n > 0 && row < x.element_count() / n; ++row) {
    const float* in = x.typed_data() + row * n;
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += double(in[i]) * in[i];
    const float by = float(1 / std::sqrt(sum / n + eps));
    factor->typed_data()[row] = by;
    for (int64_t i = 0; i < n; ++i) y->typed_data()[row * n + i] = in[i] * by;
  }
  return ffi::Error::Success();
}

// The cotangent of x, given that of y.
static ffi::Error Backward(ffi::Buffer<ffi::F32> x, ffi::Buffer<ffi::F32> factor,
                           ffi::Buffer<ffi::F32> cotangent, ffi::ResultBuffer<ffi::F32> out) {
  if (x.dimensions().size() == 0) return ffi::Error::InvalidArgument("x has no dimension");
  const int64_t n = x.dimensions().back();
  for (size_t row = 0; n > 0 && row < x.element_count() / n; ++row) {
    const float* in = x.typed_data() + row * n;
    const float* ct = cotangent.typed_data() + row * n;
    const float by = factor.typed_data()[row];
    double along = 0;
    for (int64_t i = 0; i < n; ++i) along += double(in[i]) * ct[i];
    const double pull = along / n * by * by * by;
    for (int64_t i = 0; i < n; ++i) {
      out->typed_data()[row * n + i] = float(ct[i] * double(by) - in[i] * pull);
    }
  }
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(RmsNorm, Forward,
                              ffi::Ffi::Bind()
                                  .Attr<float>("eps")
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>());

XLA_FFI_DEFINE_HANDLER_SYMBOL(RmsNormBackward, Backward,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>());
