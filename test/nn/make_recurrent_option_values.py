# SPDX-License-Identifier: BSL-1.0
"""Writes the rows of sequence_values.txt for options of recurrent layers: values and gradients, in double.

usage: PYTHON make_recurrent_option_values.py >> sequence_values.txt
       once with a PYTHON that has torch (projections), and once with one that has tensorflow (peepholes by the formula
       of tf.compat.v1.nn.rnn_cell.LSTMCell, and Keras's GRU with reset_after=False)
"""
import numpy as np

batch, time, features, units, projection = 3, 5, 4, 3, 2


def numbers(which, *extents, scale=257.0):
    i = np.arange(np.prod(extents))
    return ((((i * 7919 + 31 * which) % 257) - 128) / scale).reshape(extents)


def emit(name, **values):
    for what, value in values.items():
        print(" ".join([f"{name}_{what}", *map(repr, np.asarray(value).flatten().tolist())]))


x0 = numbers(5, batch, time, features, scale=64.0)
try:
    import torch
except ImportError:
    torch = None
if torch:
    torch.set_default_dtype(torch.float64)
    module = torch.nn.LSTM(features, units, proj_size=projection, batch_first=True)
    n = 4 * units
    given = {"weight_ih": numbers(1, features, n).T, "weight_hh": numbers(2, projection, n).T,
             "bias_ih": numbers(3, n), "bias_hh": np.zeros(n), "weight_hr": numbers(12, units, projection).T}
    for own, value in given.items():
        with torch.no_grad():
            getattr(module, own + "_l0").copy_(torch.tensor(value.copy()))
    x, h0, c0 = (torch.tensor(v, requires_grad=True) for v in
                 (x0, numbers(6, 1, batch, projection), numbers(7, 1, batch, units)))
    states, (h, c) = module(x, (h0, c0))
    ((states * torch.tensor(numbers(8, *states.shape))).sum() + (c * torch.tensor(numbers(10, *c.shape))).sum()).backward()
    emit("lstm_projection", states=states.detach(), h=h.detach(), c=c.detach(), d_x=x.grad, d_h0=h0.grad, d_c0=c0.grad,
         d_weights=module.weight_ih_l0.grad.T, d_recurrent_weights=module.weight_hh_l0.grad.T,
         d_bias=module.bias_ih_l0.grad, d_projection_weights=module.weight_hr_l0.grad.T)
else:
    import tensorflow as tf

    def variables(*values):
        return [tf.Variable(v, dtype=tf.float64) for v in values]

    def record(name, parameters, run):
        x = tf.Variable(x0, dtype=tf.float64)
        with tf.GradientTape() as tape:
            states = run(x)
            loss = tf.reduce_sum(states * numbers(8, *states.shape))
        gradients = tape.gradient(loss, [x, *parameters.values()])
        emit(name, states=states, d_x=gradients[0], **{f"d_{k}": g for k, g in zip(parameters, gradients[1:])})

    w, u, b, p = variables(numbers(1, features, 12), numbers(2, units, 12), numbers(3, 12), numbers(12, 9))

    def peepholes(x):
        h = c = tf.zeros([batch, units], tf.float64)
        of_i, of_f, of_o = tf.split(p, 3)
        states = []
        for t in range(time):
            i, f, g, o = tf.split(tf.matmul(x[:, t], w) + b + tf.matmul(h, u), 4, axis=1)
            c = tf.sigmoid(f + of_f * c) * c + tf.sigmoid(i + of_i * c) * tf.tanh(g)
            h = tf.sigmoid(o + of_o * c) * tf.tanh(c)
            states.append(h)
        return tf.stack(states, axis=1)

    record("lstm_peepholes", {"weights": w, "recurrent_weights": u, "bias": b, "peephole_weights": p}, peepholes)

    def keras_order(v):  # Keras has z, r, n
        r, z, n = tf.split(v, 3, axis=-1)
        return tf.concat([z, r, n], -1)

    gw, gu, gb = variables(numbers(1, features, 9), numbers(2, units, 9), numbers(3, 9))
    cell = tf.keras.layers.GRUCell(units, reset_after=False, dtype="float64")
    cell.build((batch, features))

    def gru(x):
        cell.kernel, cell.recurrent_kernel, cell.bias = map(keras_order, (gw, gu, gb))
        h = tf.zeros([batch, units], tf.float64)
        states = []
        for t in range(time):
            h = cell(x[:, t], [h])[0]
            states.append(h)
        return tf.stack(states, axis=1)

    record("gru_reset_before", {"weights": gw, "recurrent_weights": gu, "bias": gb}, gru)
