# SPDX-License-Identifier: BSL-1.0
"""Writes batches of labels, predictions and weights, and what scikit-learn and TensorFlow 1's metrics measure of them, for
test/train/metrics.cpp to compare Weft with.

usage: PYTHON make_metric_values.py > metric_values.txt

A line `case KIND NAME CLASSES`, then for each batch `batch COUNT` and its labels, predictions, a row of CLASSES scores for
each label of the kind `classes`, and weights; then lines `value FROM WEIGHTED METRIC VALUE`, of the batches together, without
the weights (0) and with them (1). TensorFlow computes in float, scikit-learn in double.
"""
import os
import warnings

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
warnings.simplefilter("ignore")
import numpy as np
import sklearn
import sklearn.metrics as sk
import tensorflow as tf

v1 = tf.compat.v1
v1.disable_eager_execution()
m = v1.metrics
rng = np.random.default_rng(5)


def show(x):
    return "nan" if np.isnan(x) else repr(float(x))


def tensorflow(make, shape, label_type, batches):
    """The values of `make(labels, predictions, weights)`, a dictionary of pairs, after all batches."""
    with tf.Graph().as_default(), v1.Session() as session:
        labels = v1.placeholder(label_type, [None])
        predictions = v1.placeholder(tf.float32, [None, *shape])
        weights = v1.placeholder(tf.float32, [None])
        pairs = make(labels, predictions, weights)
        session.run(v1.local_variables_initializer())
        for l, p, w in batches:
            session.run([u for _, u in pairs.values()], {labels: l, predictions: p, weights: w})
        return session.run({name: value for name, (value, _) in pairs.items()})


def binary(labels, predictions, weights, weighted):
    w = weights if weighted else None
    return {
        "precision": m.precision_at_thresholds(labels, predictions, [0.5], w),
        "recall": m.recall_at_thresholds(labels, predictions, [0.5], w),
        "auc_roc": m.auc(labels, predictions, w, summation_method="careful_interpolation"),
        "auc_pr": m.auc(labels, predictions, w, curve="PR", summation_method="careful_interpolation"),
        "auc_roc_20": m.auc(labels, predictions, w, num_thresholds=20),
    }


def classes(labels, scores, weights, weighted):
    w = weights if weighted else None
    top = lambda k: tf.cast(tf.nn.in_top_k(predictions=scores, targets=labels, k=k), tf.float32)
    return {"accuracy": m.accuracy(labels, tf.argmax(scores, 1), w), "top_2": m.mean(top(2), w), "top_3": m.mean(top(3), w)}


def numbers(labels, predictions, weights, weighted):
    w = weights if weighted else None
    return {
        "mean": m.mean(predictions, w),
        "mse": m.mean_squared_error(labels, predictions, w),
        "rmse": m.root_mean_squared_error(labels, predictions, w),
        "mae": m.mean_absolute_error(labels, predictions, w),
    }


def of_sklearn(kind, l, p, w, count):
    if kind == "binary":
        positive = p > np.float32(0.5)
        values = {
            "precision": sk.precision_score(l, positive, sample_weight=w, zero_division=0),
            "recall": sk.recall_score(l, positive, sample_weight=w, zero_division=0),
            "f1": sk.f1_score(l, positive, sample_weight=w, zero_division=0),
            "binary_accuracy": sk.accuracy_score(l, positive, sample_weight=w),
            "exact_roc": sk.roc_auc_score(l, p, sample_weight=w) if len(set(l)) == 2 else np.nan,
            "exact_pr": sk.average_precision_score(l, p, sample_weight=w),
        }
    elif kind == "classes":
        best = p.argmax(1)
        each = range(count)
        values = {
            "accuracy": sk.accuracy_score(l, best, sample_weight=w),
            "macro_f1": sk.f1_score(l, best, labels=each, average="macro", sample_weight=w, zero_division=0),
        }
        matrix = sk.confusion_matrix(l, best, labels=each, sample_weight=w)
        values.update({f"matrix_{i}_{j}": matrix[i, j] for i in each for j in each})
        for name, f in {"precision": sk.precision_score, "recall": sk.recall_score}.items():
            per = f(l, best, labels=each, average=None, sample_weight=w, zero_division=0)
            values.update({f"{name}_{i}": per[i] for i in each})
    else:
        d, e = l.astype(np.float64), p.astype(np.float64)
        values = {
            "mse": sk.mean_squared_error(d, e, sample_weight=w),
            "rmse": sk.root_mean_squared_error(d, e, sample_weight=w),
            "mae": sk.mean_absolute_error(d, e, sample_weight=w),
            "r2": sk.r2_score(d, e, sample_weight=w),
        }
    return values


def case(kind, name, batches, count=0):
    print("case", kind, name, count)
    for l, p, w in batches:
        print("batch", len(l))
        print(*l.tolist())
        for row in np.atleast_2d(p):
            print(*row.tolist())
        print(*w.tolist())
    make = {"binary": binary, "classes": classes, "numbers": numbers}[kind]
    for weighted in (0, 1):
        found = tensorflow(lambda l, p, w: make(l, p, w, weighted), [count] if count else [],
                           tf.float32 if kind == "numbers" else tf.int64, batches)
        for metric, value in found.items():
            print("value tensorflow", weighted, metric, show(np.ravel(value)[0]))
        if batches:
            l, p, w = (np.concatenate(each) for each in zip(*batches))
            for metric, value in of_sklearn(kind, l, p, w.astype(np.float64) if weighted else None, count).items():
                print("value sklearn", weighted, metric, show(value))


def split(l, p, w, *ends):
    f = lambda x: np.split(x, ends)
    return list(zip(f(l), f(p.astype(np.float32)), f(w.astype(np.float32))))


def weights(n):
    return rng.choice([0, 0.25, 0.5, 1, 2, 3.5], n)


print(f"# Made by make_metric_values.py with TensorFlow {tf.__version__} and scikit-learn {sklearn.__version__}.")
n = 60
l = rng.integers(0, 2, n)
case("binary", "spread", split(l, np.clip(0.3 * l + rng.uniform(0, 0.7, n), 0, 1), weights(n), 7, 12, 30))
# Equal predictions, 0 and 1, and some that are thresholds.
p = rng.choice(np.concatenate([np.arange(200) / 199, [0, 1, 0.5, 0.25, 0.75] * 40]), n)
case("binary", "ties", split(l, p, weights(n), 20, 21))
case("binary", "right", split(l, l, weights(n), 30))
case("binary", "wrong", split(l, 1 - l, weights(n), 30))
case("binary", "crowded", split(l, 0.5 + 1e-4 * rng.uniform(-1, 1, n), weights(n), 30))
case("binary", "positives", split(np.ones(9, int), rng.uniform(0, 1, 9), weights(9), 4))
case("binary", "negatives", split(np.zeros(9, int), rng.uniform(0, 1, 9), weights(9), 4))
case("binary", "nothing", [])
l = rng.integers(0, 4, 40)  # none of the fifth class
case("classes", "ties", split(l, rng.integers(0, 4, (40, 5)), weights(40), 3, 20), 5)
case("classes", "spread", split(l, rng.normal(size=(40, 5)) + 1.5 * np.eye(5)[l], weights(40), 13), 5)
case("classes", "nothing", [], 5)
l = rng.normal(size=30)
case("numbers", "spread", split(l.astype(np.float32), l + 0.5 * rng.normal(size=30), weights(30), 8, 9))
l = 100000 + rng.integers(0, 8, 30) / 64  # a large mean
case("numbers", "far", split(l.astype(np.float32), l + rng.integers(-2, 2, 30) / 64, weights(30), 8, 9))
case("numbers", "constant", split(np.full(6, 2, np.float32), rng.normal(size=6), weights(6), 2))
case("numbers", "constant_right", split(np.full(6, 2, np.float32), np.full(6, 2.0), np.ones(6), 2))
case("numbers", "one", split(np.ones(1, np.float32), np.full(1, 3.0), np.ones(1)))
case("numbers", "nothing", [])
