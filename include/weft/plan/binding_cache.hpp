// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/plan/binding.hpp>
#include <weft/tensor/owned.hpp>

WEFT_COLD_BEGIN
namespace weft::plan {

/// The bindings that a step keeps, hashed by the extents of the fed values: at most 1,024, and at most 256 MB unless
/// there are fewer than 16. Evicts a random binding: with LRU, a program that cycles through more extents than the
/// cache holds would never find the next one.
class binding_cache {
 public:
  static constexpr std::size_t always_kept = 16, max_kept = 1024, max_bytes = std::size_t{256} << 20;

  binding_cache() = default;
  binding_cache(const binding_cache&) = delete;
  binding_cache& operator=(const binding_cache&) = delete;
  ~binding_cache() {
    for (binding* b : all_) delete b;
  }

  static std::uint64_t hash_of(const fed_value* fed, std::size_t count) {
    detail::hasher h;
    for (std::size_t i = 0; i < count; ++i)
      for (std::size_t a = 0; a < fed[i].extents.rank; ++a) h.add(static_cast<std::uint64_t>(fed[i].extents[a]));
    return h.result();
  }

  binding* find(const fed_value* fed, std::uint64_t hash) const {
    for (binding* b = heads_.empty() ? nullptr : head(hash); b; b = b->next)
      if (b->hash == hash && b->is_for(fed)) return b;
    return nullptr;
  }

  void add(owned<binding> made) {
    made->bytes = made->memory_bytes();
    while (all_.size() >= max_kept || (all_.size() >= always_kept && bytes_ + made->bytes > max_bytes)) drop_one();
    if (all_.size() == heads_.size()) widen();
    all_.reserve(all_.size() + 1);
    link(*made);
    bytes_ += made->bytes;
    all_.push_back(made.release());
  }

  std::size_t size() const { return all_.size(); }
  binding* newest() const { return all_.empty() ? nullptr : all_.back(); }

 private:
  binding*& head(std::uint64_t hash) { return heads_[hash & (heads_.size() - 1)]; }
  binding* head(std::uint64_t hash) const { return heads_[hash & (heads_.size() - 1)]; }

  void link(binding& b) {
    b.next = head(b.hash);
    head(b.hash) = &b;
  }

  void widen() {
    sequence<binding*> wider(heads_.empty() ? 16 : 2 * heads_.size(), nullptr);
    heads_.swap(wider);
    for (binding* b : all_) link(*b);
  }

  void drop_one() {
    random_ = random_ * 6364136223846793005u + 1442695040888963407u;
    const std::size_t at = (random_ >> 33) % all_.size();
    binding** place = &head(all_[at]->hash);
    while (*place != all_[at]) place = &(*place)->next;
    *place = all_[at]->next;
    bytes_ -= all_[at]->bytes;
    delete all_[at];
    all_[at] = all_.back();
    all_.pop_back();
  }

  sequence<binding*> all_, heads_;  // heads of lists by the last bits of the hash; their number is a power of two
  std::size_t bytes_ = 0;
  std::uint64_t random_ = 0;
};

}  // namespace weft::plan

WEFT_COLD_END
