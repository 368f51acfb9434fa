// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <weft/data/stage.hpp>

namespace weft::data::detail {

/// Reads the elements of several files in sequence. A `Reader` is constructed from a path and options, and has a
/// function `bool next(element&)`.
template <class Reader, class Options>
class file_stream final : public stream {
 public:
  file_stream(const std::vector<std::string>& paths, const Options& options, stop_source* stop)
      : paths_(paths), options_(options), stop_(stop) {}

  bool next(element& to, const time_limit&) override {
    check_stop(stop_);
    for (;; ++file_) {
      if (file_ == paths_.size()) return false;
      if (!reader_) reader_ = std::make_unique<Reader>(paths_[file_], options_);
      if (reader_->next(to)) return true;
      reader_.reset();
    }
  }

 private:
  const std::vector<std::string>& paths_;
  const Options& options_;
  stop_source* stop_;
  std::size_t file_ = 0;
  std::unique_ptr<Reader> reader_;
};

template <class Reader, class Options>
class file_stage final : public stage {
 public:
  file_stage(sequence<feature> features, std::vector<std::string> paths, Options options)
      : stage(std::move(features)), paths_(std::move(paths)), options_(std::move(options)) {}

  intrusive_ptr<stream> open(std::uint64_t, stop_source* stop) const override {
    return intrusive_ptr<stream>(new file_stream<Reader, Options>(paths_, options_, stop));
  }

 private:
  std::vector<std::string> paths_;
  Options options_;
};

/// Returns the string of an element whose only feature is a text.
inline std::string& text_of(element& e) {
  e.resize(1);
  return e[0].text();
}

}  // namespace weft::data::detail
