#pragma once

#include <weft/device/kernel.hpp>
#include <weft/device/random_words.hpp>
#include <weft/ops/random_position.hpp>

/// Positions in random numbers made of others, for what draws several times in a step.
WEFT_COLD_BEGIN
namespace weft {

/// The position folded with a key (jax.random.fold_in): one of as many bits, unlike that of any step.
struct fold_in_op {
  static constexpr const char* name = "fold_in";
  struct attributes {
    attribute<std::uint64_t> key;
  };

  class fold_kernel final : public kernel {
   public:
    fold_kernel(const prepare_context& p, std::uint64_t key)
        : from_(p.input_slots[0]), to_(p.output_slots[0]), key_(key) {}
    void run(const kernel_context& f) override {
      const std::uint64_t here = *reinterpret_cast<const std::uint64_t*>(f.buffers[from_]);
      *reinterpret_cast<std::uint64_t*>(f.buffers[to_]) = device::fold_in(key_, here);
    }
    std::string describe() const override { return name; }

   private:
    std::uint32_t from_, to_;
    std::uint64_t key_;
  };
  static kernel* prepare(const prepare_context& p, const attributes& a) { return new fold_kernel(p, a.key); }
};

namespace detail {

inline symbol record_fold_in(symbol position, std::uint64_t key) {
  return record<fold_in_op>({position}, position.info(), {key});
}

}  // namespace detail
}  // namespace weft
WEFT_COLD_END

#if WEFT_COMPILES_FOR_GPU
  #include <weft/ops/gpu/fold_in.hpp>
#endif
