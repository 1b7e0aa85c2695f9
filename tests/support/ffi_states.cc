// A handler in C++ with all four stages, as XLA's macros bind them.

#include <atomic>
#include <cstdint>
#include <memory>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

static std::atomic<int> tables_made{0}, tables_alive{0}, prepared{0}, initialized{0};

// Powers of a base, computed once for each compiled program.
struct Powers {
  explicit Powers(float base) {
    float power = 1;
    for (float& entry : table) entry = power, power *= base;
    ++tables_made, ++tables_alive;
  }
  ~Powers() { --tables_alive; }
  static ffi::TypeId id;
  float table[16];
};
ffi::TypeId Powers::id = {};
static const ffi::TypeInfo powers_info = ffi::MakeTypeInfo<Powers>();

extern "C" XLA_FFI_TypeId* PowersTypeId() { return &Powers::id; }
extern "C" const XLA_FFI_TypeInfo* PowersTypeInfo() { return &powers_info; }
extern "C" int counted(int what) {
  std::atomic<int>* all[] = {&tables_made, &tables_alive, &prepared, &initialized};
  return *all[what];
}

static ffi::ErrorOr<std::unique_ptr<Powers>> Instantiate(float base) {
  if (base == 0) return ffi::Unexpected(ffi::Error::InvalidArgument("powers of zero"));
  return std::make_unique<Powers>(base);
}

static ffi::Error Prepare() {
  ++prepared;
  return ffi::Error::Success();
}

static ffi::Error Initialize(Powers* powers) {
  if (powers->table[0] != 1) return ffi::Error::Internal("no table");
  ++initialized;
  return ffi::Error::Success();
}

static ffi::Error Execute(Powers* powers, ffi::Buffer<ffi::S32> exponents,
                          ffi::ResultBuffer<ffi::F32> out) {
  for (size_t i = 0; i < exponents.element_count(); ++i) {
    int32_t exponent = exponents.typed_data()[i];
    if (exponent < 0 || exponent > 15) return ffi::Error(ffi::ErrorCode::kOutOfRange, "exponent");
    out->typed_data()[i] = powers->table[exponent];
  }
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(PowersInstantiate, Instantiate,
                              ffi::Ffi::BindInstantiate().Attr<float>("base"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(PowersPrepare, Prepare, ffi::Ffi::BindPrepare());
XLA_FFI_DEFINE_HANDLER_SYMBOL(PowersInitialize, Initialize,
                              ffi::Ffi::BindInitialize().Ctx<ffi::State<Powers>>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(PowersExecute, Execute,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::State<Powers>>()
                                  .Arg<ffi::Buffer<ffi::S32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>());
