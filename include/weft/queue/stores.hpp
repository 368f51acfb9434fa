// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <tuple>
#include <utility>

#include <weft/error.hpp>
#include <weft/tensor/random.hpp>

/// Stores hold the elements of a queue, and decide which one is dequeued next. They are not thread-safe. Within the
/// reserved size, their functions do not throw.
namespace weft::detail {

template <class Element>
Element* allocate_elements(std::size_t room, std::size_t elements) {
  try {
    return std::allocator<Element>().allocate(room);
  } catch (const std::bad_alloc&) {
    throw error(error_code::resource_exhausted, "", {"out of memory for ", elements, " elements of a queue"});
  }
}

/// Memory for elements that are constructed one by one and destroyed with the array.
template <class Element>
class element_array {
 public:
  explicit element_array(std::size_t room)
      : memory_(room ? allocate_elements<Element>(room, room) : nullptr), room_(room) {}
  element_array(const element_array&) = delete;
  element_array& operator=(const element_array&) = delete;
  ~element_array() {
    clear();
    if (memory_) std::allocator<Element>().deallocate(memory_, room_);
  }

  std::size_t size() const { return size_; }
  Element* data() { return memory_; }
  const Element* data() const { return memory_; }
  Element& operator[](std::size_t i) { return memory_[i]; }
  const Element& operator[](std::size_t i) const { return memory_[i]; }
  /// Requires room.
  template <class... X>
  void emplace_back(X&&... x) {
    new (memory_ + size_) Element(std::forward<X>(x)...);
    ++size_;
  }
  void clear() {
    while (size_ > 0) memory_[--size_].~Element();
  }
  /// Moves all elements out, in reverse order.
  template <class Take>
  void give_back(Take take) {
    for (std::size_t i = size_; i-- > 0;) take(std::move(memory_[i]));
    clear();
  }

 private:
  Element* memory_;
  std::size_t room_, size_ = 0;
};

/// A growing ring buffer. Its size is a power of two and never shrinks.
template <class Element>
class ring {
 public:
  ring() = default;
  ring(const ring&) = delete;
  ring& operator=(const ring&) = delete;
  ~ring() {
    while (size_ > 0) pop_front();
    if (memory_) std::allocator<Element>().deallocate(memory_, room_);
  }

  std::size_t size() const { return size_; }
  Element& operator[](std::size_t i) { return memory_[(first_ + i) & (room_ - 1)]; }
  Element& front() { return memory_[first_]; }
  Element& back() { return (*this)[size_ - 1]; }

  void reserve(std::size_t elements) {
    if (elements > room_) grow(elements);
  }
  void push_back(Element&& e) {
    new (&memory_[(first_ + size_) & (room_ - 1)]) Element(std::move(e));
    ++size_;
  }
  void push_front(Element&& e) {
    first_ = (first_ - 1) & (room_ - 1);
    new (&memory_[first_]) Element(std::move(e));
    ++size_;
  }
  void pop_front() {
    memory_[first_].~Element();
    first_ = (first_ + 1) & (room_ - 1);
    --size_;
  }
  void pop_back() {
    back().~Element();
    --size_;
  }

 private:
  void grow(std::size_t elements) {
    std::size_t room = room_ ? room_ : 8;
    while (room < elements && room <= SIZE_MAX / 2) room *= 2;
    Element* const larger = allocate_elements<Element>(room, elements);
    for (std::size_t i = 0; i < size_; ++i) {
      new (larger + i) Element(std::move((*this)[i]));
      (*this)[i].~Element();
    }
    if (memory_) std::allocator<Element>().deallocate(memory_, room_);
    memory_ = larger;
    room_ = room;
    first_ = 0;
  }

  Element* memory_ = nullptr;
  std::size_t room_ = 0, first_ = 0, size_ = 0;
};

/// First in, first out.
template <class Element>
class fifo_store {
 public:
  using element = Element;
  static constexpr bool whole_batches = false;  // a call that waits for several elements takes them as they arrive

  std::size_t size() const { return elements_.size(); }
  void reserve(std::size_t elements) { elements_.reserve(elements); }
  void put(Element&& e) { elements_.push_back(std::move(e)); }
  void take(element_array<Element>& to) {
    to.emplace_back(std::move(elements_.front()));
    elements_.pop_front();
  }
  /// Puts dequeued elements back.
  void restore(element_array<Element>& taken) {
    taken.give_back([this](Element&& e) { elements_.push_front(std::move(e)); });
  }

 private:
  ring<Element> elements_;
};

/// Takes random elements, drawn by Philox: with the same seeds, TensorFlow's queue draws the same
/// (random_shuffle_queue_op.cc).
template <class Element>
class shuffle_store {
 public:
  using element = Element;
  static constexpr bool whole_batches = false;

  shuffle_store(std::uint64_t seed, std::uint64_t seed2) : seed_(seed), seed2_(seed2) {}

  std::size_t size() const { return elements_.size(); }
  void reserve(std::size_t elements) { elements_.reserve(elements); }
  void put(Element&& e) { elements_.push_back(std::move(e)); }
  void take(element_array<Element>& to) {
    Element& drawn = elements_[word() % elements_.size()];
    to.emplace_back(std::move(drawn));
    if (&drawn != &elements_.back()) drawn = std::move(elements_.back());
    elements_.pop_back();
  }
  void restore(element_array<Element>& taken) {
    taken.give_back([this](Element&& e) { elements_.push_back(std::move(e)); });
  }

 private:
  std::uint32_t word() {
    const std::uint64_t i = drawn_++;
    if (i % 4 == 0) block_ = philox(seed_, seed2_, i / 4);
    return block_.word[i % 4];
  }

  ring<Element> elements_;
  std::uint64_t seed_, seed2_, drawn_ = 0;
  philox block_{0, 0, 0};
};

/// A binary heap. Takes the element with the smallest priority, its first component, and the oldest among equals, an
/// order that TensorFlow does not specify.
template <class Element>
class priority_store {
 public:
  using element = Element;
  static constexpr bool whole_batches = true;  // a call waits until all of its elements are available

  std::size_t size() const { return heap_.size(); }
  void reserve(std::size_t elements) { heap_.reserve(elements); }
  void put(Element&& e) { push({std::move(e), arrivals_++}); }
  void take(element_array<Element>& to) {
    to.emplace_back(std::move(heap_[0].value));
    if (heap_.size() > 1) {
      entry last{std::move(heap_.back().value), heap_.back().arrival};
      heap_.pop_back();
      sink(std::move(last));
    } else {
      heap_.pop_back();
    }
  }
  /// Places the elements before all others of their priority, which arrived later.
  void restore(element_array<Element>& taken) {
    taken.give_back([this](Element&& e) { push({std::move(e), --returns_}); });
  }

 private:
  struct entry {
    Element value;
    std::int64_t arrival;

    bool before(const entry& other) const {
      const auto mine = std::get<0>(value), theirs = std::get<0>(other.value);
      return mine < theirs || (mine == theirs && arrival < other.arrival);
    }
  };

  void push(entry e) {
    std::size_t i = heap_.size();
    heap_.push_back(entry(e));
    for (; i > 0 && e.before(heap_[(i - 1) / 2]); i = (i - 1) / 2) heap_[i] = heap_[(i - 1) / 2];
    heap_[i] = std::move(e);
  }
  void sink(entry e) {
    std::size_t i = 0;
    for (std::size_t child; (child = 2 * i + 1) < heap_.size(); i = child) {
      if (child + 1 < heap_.size() && heap_[child + 1].before(heap_[child])) ++child;
      if (!heap_[child].before(e)) break;
      heap_[i] = heap_[child];
    }
    heap_[i] = std::move(e);
  }

  ring<entry> heap_;
  std::int64_t arrivals_ = 0, returns_ = 0;
};

}  // namespace weft::detail
