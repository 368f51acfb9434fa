#pragma once

#include <string>

#include <weft/device/cpu/loop.hpp>
#include <weft/device/kernel.hpp>
#include <weft/tensor/sequence.hpp>

WEFT_COLD_BEGIN
namespace weft::device {

/// A loop and its buffers: the kernel of every fused expression, reduction, and their gradients.
class loop_kernel final : public kernel {
 public:
  struct buffers {
    sequence<std::uint32_t> in, out;
    sequence<std::size_t> out_elements;
  };

  loop_kernel(const loop& body, buffers where, sequence<std::uint64_t> literals, std::string description)
      : body_(body),
        where_(static_cast<buffers&&>(where)),
        literals_(static_cast<sequence<std::uint64_t>&&>(literals)),
        description_(static_cast<std::string&&>(description)) {
    chunks_ = body_.chunks();
    if (chunks_ == 1 || !body_.chunks_share_outputs()) return;
    std::size_t bytes = 0;
    for (std::size_t k = 0; k < body_.outputs(); ++k) {
      partial_offsets_.push_back(bytes);
      if (combines(k)) bytes += (where_.out_elements[k] * size_of(body_.output_type(k)) + 63) / 64 * 64;
    }
    partial_bytes_ = bytes;
    partials_.resize(bytes * chunks_ / sizeof(cache_line));
  }

  /// Divides output 0 when the loop is done, as a mean does, or operand `input` before it starts, as its gradient does.
  void divide_output(double divisor) { output_divisor_ = divisor; }
  void divide_input(std::size_t input, double divisor, std::size_t elements, dtype type,
                    const arithmetic& type_arithmetic) {
    divided_input_ = static_cast<int>(input);
    input_divisor_ = divisor;
    divided_elements_ = elements;
    divided_arithmetic_ = &type_arithmetic;
    divided_.resize((elements * size_of(type) + 63) / 64);
  }

  // WEFT_ONCE here too: this is the class's key function.
  WEFT_ONCE void run(const frame& f) override;

  /// Runs rows [begin, end) of `rows` along the outermost axis; only for loops that combine nothing.
  void run_part(const frame& f, std::size_t begin, std::size_t end, std::size_t rows);

  std::string describe() const override { return description_; }

 private:
  struct alignas(64) cache_line {
    std::byte bytes[64];
  };

  bool combines(std::size_t k) const { return body_.how(k) != combine::store && body_.how(k) != combine::discard; }

  void run_with_partials(const frame& f, const void* const* in, void* const* out);
  void* partial(std::size_t chunk, std::size_t k) {
    return reinterpret_cast<std::byte*>(partials_.data()) + chunk * partial_bytes_ + partial_offsets_[k];
  }

  loop body_;
  buffers where_;
  sequence<std::uint64_t> literals_;
  std::string description_;
  std::size_t chunks_ = 1, partial_bytes_ = 0, divided_elements_ = 0;
  sequence<std::size_t> partial_offsets_;
  sequence<cache_line> partials_, divided_;
  double output_divisor_ = 1, input_divisor_ = 1;
  int divided_input_ = -1;
  const arithmetic* divided_arithmetic_ = nullptr;
};

#if WEFT_BODIES

WEFT_ONCE void loop_kernel::run(const frame& f) {
  const void* in[max_operands];
  void* out[max_operands];
  for (std::size_t k = 0; k < where_.in.size(); ++k) in[k] = f.buffers[where_.in[k]];
  for (std::size_t k = 0; k < where_.out.size(); ++k) out[k] = f.buffers[where_.out[k]];
  if (divided_input_ >= 0) {
    const auto k = static_cast<std::size_t>(divided_input_);
    divided_arithmetic_->divide(input_divisor_, in[k], divided_.data(), divided_elements_);
    in[k] = divided_.data();
  }
  for (std::size_t k = 0; k < where_.out.size(); ++k)
    if (combines(k)) body_.elements_of(k)->fill_identity(body_.how(k), out[k], where_.out_elements[k]);
  if (chunks_ == 1)
    body_.run(in, out, literals_.data());
  else if (partials_.empty())
    f.threads->parallel_for(chunks_, [&](std::size_t c) { body_.run(in, out, literals_.data(), c, chunks_); });
  else
    run_with_partials(f, in, out);
  if (output_divisor_ != 1) body_.elements_of(0)->divide(output_divisor_, out[0], out[0], where_.out_elements[0]);
}

WEFT_ONCE void loop_kernel::run_part(const frame& f, std::size_t begin, std::size_t end, std::size_t rows) {
  const void* in[max_operands];
  void* out[max_operands];
  for (std::size_t k = 0; k < where_.in.size(); ++k) in[k] = f.buffers[where_.in[k]];
  for (std::size_t k = 0; k < where_.out.size(); ++k) out[k] = f.buffers[where_.out[k]];
  const std::size_t n = end - begin, parts = n * body_.elements() / rows < 65536 ? 1 : n < 16 ? n : 16;
  const auto part = [&](std::size_t c) {
    body_.run_rows(in, out, literals_.data(), begin + n * c / parts, begin + n * (c + 1) / parts, rows);
  };
  if (parts == 1)
    part(0);
  else
    f.threads->parallel_for(parts, part);
}

WEFT_ONCE void loop_kernel::run_with_partials(const frame& f, const void* const* in, void* const* out) {
  f.threads->parallel_for(chunks_, [&](std::size_t c) {
    void* mine[max_operands];
    for (std::size_t k = 0; k < body_.outputs(); ++k) {
      mine[k] = out[k];
      if (!combines(k)) continue;
      mine[k] = partial(c, k);
      body_.elements_of(k)->fill_identity(body_.how(k), mine[k], where_.out_elements[k]);
    }
    body_.run(in, mine, literals_.data(), c, chunks_);
  });
  for (std::size_t c = 0; c < chunks_; ++c)
    for (std::size_t k = 0; k < body_.outputs(); ++k)
      if (combines(k))
        body_.elements_of(k)->merge_tile(body_.how(k), partial(c, k), out[k], 1, where_.out_elements[k], 0, 1);
}

#endif

}  // namespace weft::device
WEFT_COLD_END
