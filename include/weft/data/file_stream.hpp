#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <weft/data/stage.hpp>

namespace weft::data::detail {

/// The elements that `Reader`s find in files, one file after the other. A reader is made of a path and options, and has
/// `bool next(element&)`.
template <class Reader, class Options>
class file_stream final : public stream {
 public:
  file_stream(const std::vector<std::string>& paths, const Options& options, std::stop_token stop)
      : paths_(paths), options_(options), stop_(std::move(stop)) {}

  bool next(element& to, const deadline&) override {
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
  std::stop_token stop_;
  std::size_t file_ = 0;
  std::unique_ptr<Reader> reader_;
};

template <class Reader, class Options>
class file_stage final : public stage {
 public:
  file_stage(std::vector<feature> features, std::vector<std::string> paths, Options options)
      : stage(std::move(features)), paths_(std::move(paths)), options_(std::move(options)) {}

  std::unique_ptr<stream> open(std::uint64_t, std::stop_token stop) const override {
    return std::make_unique<file_stream<Reader, Options>>(paths_, options_, std::move(stop));
  }

 private:
  std::vector<std::string> paths_;
  Options options_;
};

/// Where a reader writes the only feature of an element, a text.
inline std::string& text_of(element& e) {
  e.resize(1);
  e[0].texts.resize(1);
  return e[0].texts[0];
}

}  // namespace weft::data::detail
