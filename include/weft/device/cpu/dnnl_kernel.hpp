// SPDX-License-Identifier: BSL-1.0
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

/// The common part of oneDNN kernels: work divided into parts for Weft's threads, each with its own scratch memory in
/// the workspace, and an optional epilogue.
class dnnl_kernel : public kernel {
 public:
  ~dnnl_kernel() override {
    if (attributes_) dnnl_primitive_attr_destroy(attributes_);
    delete epilogue_;
  }

  std::size_t workspace_bytes() const final { return workspace_; }
  std::size_t memory_bytes() const override { return epilogue_ ? epilogue_->memory_bytes() : 0; }

 protected:
  struct line {
    alignas(64) std::byte bytes[64];
  };

  static std::size_t lines_of(std::size_t bytes) { return (bytes + sizeof(line) - 1) / sizeof(line); }

  /// Returns false if oneDNN has no fast code.
  virtual bool prepare() = 0;

  /// Returns the kernel, which then owns the epilogue, or deletes the kernel and returns null if it cannot be prepared.
  static kernel* prepared(dnnl_kernel* made, epilogue_kernel* epilogue) {
    if (made->prepare()) {
      made->epilogue_ = epilogue;
      return made;
    }
    delete made;
    return nullptr;
  }

  /// Creates attributes with which the caller provides scratch memory.
  bool make_attributes() {
    return weft::detail::dnnl_processor() && dnnl_primitive_attr_create(&attributes_) == dnnl_success &&
           dnnl_primitive_attr_set_scratchpad_mode(attributes_, dnnl_scratchpad_mode_user) == dnnl_success;
  }

  /// Adds memory to the workspace and returns its offset.
  std::size_t reserve_lines(std::size_t lines) {
    const std::size_t at = workspace_;
    workspace_ += lines * sizeof(line);
    return at;
  }

  /// Reserves scratch memory for the parts, each of which runs one of the codes. Missing codes need none.
  void reserve_scratch(std::size_t parts, std::initializer_list<const weft::detail::dnnl_code*> codes) {
    for (const weft::detail::dnnl_code* code : codes) {
      const std::size_t bytes = code->get() ? weft::detail::bytes_of(code->layout(dnnl_query_scratchpad_md)) : 0;
      const std::size_t lines = lines_of(bytes);
      scratch_of_part_ = lines > scratch_of_part_ ? lines : scratch_of_part_;
    }
    scratch_ = reserve_lines(scratch_of_part_ * parts);
  }
  std::byte* scratch_of(const kernel_context& f, std::size_t part) const {
    return f.workspace + scratch_ + part * scratch_of_part_ * sizeof(line);
  }

  /// Runs a primitive. Throws internal, in the operation's name.
  static void execute(const char* operation, dnnl_primitive_t code, dnnl_stream_t stream, int count,
                      const dnnl_exec_arg_t* arguments) {
    if (dnnl_primitive_execute(code, stream, count, arguments) != dnnl_success)
      throw error(error_code::internal, operation, "oneDNN failed");
  }

  dnnl_primitive_attr_t attributes_ = nullptr;
  epilogue_kernel* epilogue_ = nullptr;

 private:
  std::size_t workspace_ = 0, scratch_ = 0, scratch_of_part_ = 0;  // scratch_of_part_ is in lines
};

}  // namespace weft::device

WEFT_COLD_END
