// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <weft/error.hpp>
#include <weft/train/coordinator.hpp>

namespace weft {

/// Threads that fill a queue (tf.train.QueueRunner). Each thread calls a function until there is no more data:
///
///     fifo_queue<tensor<float, dims<784>>, std::int32_t> examples(1000);
///     coordinator together;
///     queue_runner(examples, 2, [&] { examples.enqueue(1min, next_image(), next_label()); }).start(together);
///     ...                                                            // dequeue until out_of_range
///     together.request_stop();
///     together.join(5s);
///
/// A function ends its thread by throwing out_of_range, as a dequeue from a closed queue or a data set at its end does.
/// The last thread that ends this way closes the queue. Any other exception requests a stop, and join() throws it.
/// Every stop closes the queue and cancels waiting enqueues.
///
/// Functions that run steps need one session each, because only one thread at a time may use a session.
class queue_runner {
 public:
  /// Uses one thread for each function.
  template <class Queue>
  queue_runner(const Queue& queue, std::vector<std::function<void()>> enqueue)
      : shared_(std::make_shared<shared>()), enqueue_(std::move(enqueue)) {
    shared_->name = queue.name();
    shared_->close = [queue](bool cancel) { queue.close(cancel); };
  }
  template <class = void>
  explicit queue_runner(...) = delete;  // queue_runner(queue, 2, [&] { queue.enqueue(1min, next()); })
  /// Uses several threads that call one function, which must be thread-safe.
  template <class Queue>
  queue_runner(const Queue& queue, int threads, const std::function<void()>& enqueue)
      : queue_runner(queue,
                     std::vector<std::function<void()>>(threads > 0 ? static_cast<std::size_t>(threads) : 0, enqueue)) {
    if (threads < 1)
      throw error(error_code::invalid_argument, "queue_runner", {"threads must be at least 1, but is ", threads});
  }

  /// Starts the threads. Throws failed_precondition if they were started before.
  void start(coordinator& with) {
    if (enqueue_.empty())
      throw error(error_code::failed_precondition, "queue_runner",
                  "has no function to call, or was already started: create a new one");
    std::vector<std::function<void()>> functions = std::exchange(enqueue_, {});
    shared_->left = functions.size();
    with.when_stopped([s = shared_] { s->close(true); });
    for (std::size_t i = 0; i < functions.size(); ++i)
      with.start(shared_->name + " runner " + std::to_string(i),
                 [s = shared_, &with, f = std::move(functions[i])] { run(*s, with, f); });
  }

 private:
  struct shared {
    std::string name;
    std::function<void(bool)> close;
    std::atomic<std::size_t> left{0};
  };

  static void run(shared& s, const coordinator& with, const std::function<void()>& enqueue) {
    try {
      while (!with.should_stop()) enqueue();
    } catch (const error& e) {
      // A stop cancels the enqueues; this is not a failure.
      if (e.code() != error_code::out_of_range && !with.should_stop()) throw;
    }
    if (--s.left > 0) return;
    try {
      s.close(false);
    } catch (const error& e) {
      if (e.code() != error_code::cancelled) throw;  // the queue is already closed
    }
  }

  std::shared_ptr<shared> shared_;
  std::vector<std::function<void()>> enqueue_;
};

}  // namespace weft
