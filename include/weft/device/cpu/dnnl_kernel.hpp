#pragma once

#include <cstddef>
#include <initializer_list>

#include <weft/device/cpu/dnnl.hpp>
#include <weft/device/cpu/loop_kernel.hpp>
#include <weft/device/kernel.hpp>
#include <weft/error.hpp>
#include <weft/tensor/sequence.hpp>

WEFT_COLD_BEGIN
namespace weft::device {

/// The common part of kernels by oneDNN: work that Weft's threads share in parts, each with scratch memory of its own,
/// and an expression that follows.
class dnnl_kernel : public kernel {
 public:
  ~dnnl_kernel() override {
    if (attributes_) dnnl_primitive_attr_destroy(attributes_);
    delete epilogue_;
  }

  std::size_t memory_bytes() const override {
    return scratch_.memory_bytes() + (epilogue_ ? epilogue_->memory_bytes() : 0);
  }

 protected:
  struct line {
    alignas(64) std::byte bytes[64];
  };

  /// False where oneDNN has no fast code.
  virtual bool prepare() = 0;

  /// The kernel, which takes over the epilogue; or null, and the kernel is gone, if it cannot be prepared.
  static kernel* prepared(dnnl_kernel* made, epilogue_kernel* epilogue) {
    if (made->prepare()) {
      made->epilogue_ = epilogue;
      return made;
    }
    delete made;
    return nullptr;
  }

  /// Attributes by which the caller gives scratch memory.
  bool make_attributes() {
    return weft::detail::dnnl_processor() && dnnl_primitive_attr_create(&attributes_) == dnnl_success &&
           dnnl_primitive_attr_set_scratchpad_mode(attributes_, dnnl_scratchpad_mode_user) == dnnl_success;
  }

  /// Takes scratch memory for so many parts, each of which runs one of the codes; codes that were not made need none.
  void reserve_scratch(std::size_t parts, std::initializer_list<const weft::detail::dnnl_code*> codes) {
    for (const weft::detail::dnnl_code* code : codes) {
      const std::size_t lines = code->get() ? scratch_lines(*code) : 0;
      scratch_of_part_ = lines > scratch_of_part_ ? lines : scratch_of_part_;
    }
    scratch_.resize(scratch_of_part_ * parts);
  }
  line* scratch_of(std::size_t part) { return scratch_.data() + part * scratch_of_part_; }

  /// Throws internal, in the operation's name.
  static void execute(const char* operation, dnnl_primitive_t code, dnnl_stream_t stream, int count,
                      const dnnl_exec_arg_t* arguments) {
    if (dnnl_primitive_execute(code, stream, count, arguments) != dnnl_success)
      throw error(error_code::internal, operation, "oneDNN failed");
  }

  dnnl_primitive_attr_t attributes_ = nullptr;
  epilogue_kernel* epilogue_ = nullptr;

 private:
  static std::size_t scratch_lines(const weft::detail::dnnl_code& code) {
    return (weft::detail::bytes_of(code.layout(dnnl_query_scratchpad_md)) + sizeof(line) - 1) / sizeof(line);
  }

  sequence<line> scratch_;
  std::size_t scratch_of_part_ = 0;
};

}  // namespace weft::device

WEFT_COLD_END
