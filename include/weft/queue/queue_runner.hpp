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

/// Threads that fill a queue (tf.train.QueueRunner), each by calling a function of its own until there is no more:
///
///     fifo_queue<tensor<float, dims<784>>, std::int32_t> examples(1000);
///     coordinator together;
///     queue_runner(examples, 2, [&] { examples.enqueue(1min, next_image(), next_label()); }).start(together);
///     ...                                                            // dequeue until out_of_range
///     together.request_stop();
///     together.join(5s);
///
/// A function that throws out_of_range, as a reader of a queue does that is closed, or a data set at its end, ends its
/// thread; the last one that ends so closes the queue. Any other exception requests the stop, and is what join()
/// throws. A stop, from wherever it is requested, closes the queue and cancels the enqueues that wait.
///
/// Functions that run steps need a session each, since one thread at a time uses a session.
class queue_runner {
 public:
  /// One thread for each function.
  template <class Queue>
  queue_runner(const Queue& queue, std::vector<std::function<void()>> enqueue)
      : shared_(std::make_shared<shared>()), enqueue_(std::move(enqueue)) {
    shared_->name = queue.name();
    shared_->close = [queue](bool cancel) { queue.close(cancel); };
  }
  template <class = void>
  explicit queue_runner(...) = delete;  // queue_runner(queue, 2, [&] { queue.enqueue(1min, next()); })
  /// So many threads that call one function, which must stand that.
  template <class Queue>
  queue_runner(const Queue& queue, int threads, const std::function<void()>& enqueue)
      : queue_runner(queue,
                     std::vector<std::function<void()>>(threads > 0 ? static_cast<std::size_t>(threads) : 0, enqueue)) {
    if (threads < 1) throw error(error_code::invalid_argument, "queue_runner", {threads, " threads: at least 1"});
  }

  /// Begins. Throws failed_precondition if it was begun before.
  void start(coordinator& with) {
    if (enqueue_.empty())
      throw error(error_code::failed_precondition, "queue_runner",
                  "has no function to call, or was started before: make another one");
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
      // After a stop the enqueues are cancelled, which is no failure.
      if (e.code() != error_code::out_of_range && !with.should_stop()) throw;
    }
    if (--s.left > 0) return;
    try {
      s.close(false);
    } catch (const error& e) {
      if (e.code() != error_code::cancelled) throw;  // somebody has closed it
    }
  }

  std::shared_ptr<shared> shared_;
  std::vector<std::function<void()>> enqueue_;
};

}  // namespace weft
