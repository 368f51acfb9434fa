# SPDX-License-Identifier: BSL-1.0
"""Writes the first weights and the results of the gallery's programs, computed by PyTorch's modules.

usage: make_values.py      (with PyTorch and safetensors; writes beside itself)
"""
import json
import math
import os

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

folder = os.path.dirname(os.path.abspath(__file__))
torch.set_num_threads(1)
results = {}


def save(name, tensors):
    save_file({key: value.detach().clone().contiguous() for key, value in tensors.items()},
              os.path.join(folder, f"{name}.safetensors"))


def matrix(layer):
    """A linear layer's weights as Weft has them, [in, out]."""
    return layer.weight.t()


def table(rows, columns, element):
    return torch.tensor([[element(i, j) for j in range(columns)] for i in range(rows)], dtype=torch.float64).float()


def noise(count, step):
    return table(count, 2, lambda i, j: 1.4 * math.sin(1.3 * i * i + 2.1 * j + 0.37 * step * (j + 1)))


def cnn():
    torch.manual_seed(1)
    model = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2))
    head = nn.Linear(128, 3, bias=False)
    # Weft's images are [batch, height, width, channels], PyTorch's [batch, channels, height, width].
    flat = head.weight.reshape(3, 8, 4, 4).permute(2, 3, 1, 0).reshape(128, 3)
    save("cnn", {"stripes/conv/weights": model[0].weight.permute(2, 3, 1, 0), "stripes/norm/scale": model[1].weight,
                 "stripes/norm/offset": model[1].bias, "stripes/norm/moving_mean": model[1].running_mean,
                 "stripes/norm/moving_variance": model[1].running_var, "stripes/scores/weights": flat})

    def stripes(first, count):
        labels = [(first + n) % 3 for n in range(count)]

        def pixel(n, at):
            row, column, k = at // 8, at % 8, 64 * n + at
            along = (row, column, row + column)[labels[n]]
            return math.sin(1.6 * along + first + n) + math.sin(0.7 * k * k + first)
        return table(count, 64, pixel).reshape(count, 1, 8, 8), torch.tensor(labels)

    optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.02, momentum=0.9)
    lines = []
    for i in range(1, 31):
        x, y = stripes(32 * i, 32)
        loss = F.cross_entropy(head(model(x).flatten(1)), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if i % 5 == 0:
            lines.append(f"step {i}: loss {loss.item():.6f}")
    model.eval()
    x, y = stripes(5000, 200)
    scores = head(model(x).flatten(1))
    lines.append(f"test: loss {F.cross_entropy(scores, y).item():.6f}, "
                 f"accuracy {(scores.argmax(1) == y).float().mean().item():.3f}")
    return lines


def gan():
    torch.manual_seed(2)

    def network(outputs):
        return nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, outputs))
    generator, discriminator = network(2), network(1)
    save("gan", {f"{name}/{part}": value for name, net in (("generator", generator), ("discriminator", discriminator))
                 for part, value in (("w1", matrix(net[0])), ("b1", net[0].bias), ("w2", matrix(net[2])),
                                     ("b2", net[2].bias))})

    def circle(step):
        return table(64, 2, lambda i, j: (math.cos, math.sin)[j](0.7 * i + step))

    train_discriminator = torch.optim.AdamW(discriminator.parameters(), lr=0.003, betas=(0.5, 0.999))
    train_generator = torch.optim.AdamW(generator.parameters(), lr=0.003, betas=(0.5, 0.999))
    ones, zeros, entropy = torch.ones(64, 1), torch.zeros(64, 1), nn.BCEWithLogitsLoss()
    lines = []
    for i in range(1, 501):
        fake = generator(noise(64, i))
        judged = entropy(discriminator(circle(i)), ones) + entropy(discriminator(fake.detach()), zeros)
        train_discriminator.zero_grad()
        judged.backward()
        train_discriminator.step()
        forged = entropy(discriminator(fake), ones)
        train_generator.zero_grad()
        forged.backward()
        train_generator.step()
        if i % 100 == 0:
            lines.append(f"step {i}: discriminator {judged.item():.6f}, generator {forged.item():.6f}")
    distance = (generator(noise(64, 1000)).norm(dim=1) - 1).abs().mean()
    lines.append(f"mean distance from the circle {distance.item():.6f}")
    return lines


def dqn():
    torch.manual_seed(3)

    def network():
        return nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 3))
    online, target = network(), network()
    save("dqn", {f"{name}/{part}": value for name, net in (("online", online), ("target", target))
                 for part, value in (("w1", matrix(net[0])), ("b1", net[0].bias), ("w2", matrix(net[2])),
                                     ("b2", net[2].bias))})
    optimizer = torch.optim.Adam(online.parameters(), lr=0.005)

    def push(place, speed, action):
        speed = 0.9 * speed + 0.1 * (action - 1)
        return place + 0.3 * speed, speed

    def decide(state):
        with torch.no_grad():
            return online(torch.tensor([state], dtype=torch.float64).float()).argmax(1).item()

    memory, lines = [], []
    for t in range(600):
        if t % 40 == 0:
            state = math.cos(2.5 * (t // 40)), 0.0
        if t % 50 == 0:
            target.load_state_dict(online.state_dict())
        action = t // 4 % 3 if t % 4 == 0 else decide(state)
        after = push(*state, action)
        memory.append((state, action, -abs(after[0]), after))
        state = after
        batch = [memory[(7919 * t + 31 * i * i) % len(memory)] for i in range(32)]
        x, a, r, y = (torch.tensor(column, dtype=torch.float64) for column in zip(*batch))
        with torch.no_grad():
            wanted = r.float() + 0.9 * target(y.float()).max(1).values
        loss = F.mse_loss(online(x.float()).gather(1, a.long()[:, None])[:, 0], wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if t % 100 == 99:
            lines.append(f"step {t + 1}: loss {loss.item():.6f}")
    state = 1.0, 0.0
    for t in range(40):
        state = push(*state, decide(state))
    lines.append(f"from 1 to {state[0]:.6f} in 40 steps")
    return lines


def gru():
    torch.manual_seed(4)
    layer, out = nn.GRU(1, 8), nn.Linear(8, 1)
    save("gru", {"gru/w": layer.weight_ih_l0.t(), "gru/u": layer.weight_hh_l0.t(), "gru/b": layer.bias_ih_l0,
                 "gru/c": layer.bias_hh_l0, "out/weights": matrix(out), "out/bias": out.bias})

    def loss_of(number):
        lengths = [2 + (5 * i * i + number) % 11 for i in range(16)]
        rows = [[math.sin(2.3 * i + 0.4 * (i % 3) * t + number) for t in range(lengths[i])] for i in range(16)]
        x = nn.utils.rnn.pad_sequence([torch.tensor(row, dtype=torch.float64).float()[:, None] for row in rows])
        _, last = layer(nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False))
        means = torch.tensor([sum(row) / len(row) for row in rows], dtype=torch.float64).float()
        return F.mse_loss(out(last[0])[:, 0], means)

    optimizer = torch.optim.AdamW([*layer.parameters(), *out.parameters()], lr=0.01)
    lines = []
    for i in range(1, 201):
        loss = loss_of(i)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if i % 40 == 0:
            lines.append(f"step {i}: loss {loss.item():.6f}")
    lines.append(f"test: loss {loss_of(1000).item():.6f}")
    return lines


def vae():
    torch.manual_seed(5)
    encoder = nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 4))
    decoder = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 64))
    save("vae", {f"{net}/{name}/{part}": value for net, layers in (("encoder", encoder), ("decoder", decoder))
                 for name, layer in (("hidden", layers[0]), ("out", layers[2]))
                 for part, value in (("w", matrix(layer)), ("b", layer.bias))})

    def spots(step):
        def pixel(i, p):
            row, column = 3.5 + 2.5 * math.sin(1.7 * i + step), 3.5 + 2.5 * math.cos(2.9 * i + 0.5 * step)
            return math.exp(-0.5 * ((p // 8 - row) ** 2 + (p % 8 - column) ** 2))
        return table(32, 64, pixel)

    optimizer = torch.optim.AdamW([*encoder.parameters(), *decoder.parameters()], lr=0.005)
    lines = []
    for i in range(1, 201):
        x = spots(i)
        mean, log_variance = encoder(x).chunk(2, 1)
        posterior = torch.distributions.Normal(mean, (0.5 * log_variance).exp())
        divergence = torch.distributions.kl_divergence(posterior, torch.distributions.Normal(0, 1)).sum(1).mean()
        logits = decoder(mean + posterior.stddev * noise(32, i))
        loss = F.binary_cross_entropy_with_logits(logits, x, reduction="sum") / 32 + divergence
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if i % 40 == 0:
            lines.append(f"step {i}: loss {loss.item():.6f}, divergence {divergence.item():.6f}")
    brightest = decoder(torch.zeros(1, 2)).sigmoid().max().item()
    lines.append(f"the brightest pixel of the picture in the middle: {brightest:.6f}")
    return lines


def forecast():
    torch.manual_seed(7)
    series, noise = [], 0
    for t in range(1500):
        noise = 0.6 * noise + 0.15 * math.sin(0.7 * t * t)
        series.append(math.sin(0.2618 * t) + 0.5 * math.sin(0.05 * t) + noise)
    series = torch.tensor(series, dtype=torch.float64).float()
    convolutions = nn.ModuleList(nn.Conv1d(1 if d == 1 else 16, 16, 2, dilation=d) for d in (1, 2, 4, 8))
    out = nn.Linear(16, 1, bias=False)
    tensors = {"out": matrix(out)}
    for i, layer in enumerate(convolutions):  # [out, in, width] and Weft's [height, width, in, out]
        tensors |= {f"conv{i + 1}/w": layer.weight.permute(2, 1, 0)[None], f"conv{i + 1}/b": layer.bias}
    save("forecast", tensors)

    def predict(x):
        h = x[:, None]
        for layer in convolutions:
            h = layer(F.pad(h, (layer.dilation[0], 0))).tanh()
        return x[:, -1] + out(h[:, :, -1])[:, 0]

    windows = series.unfold(0, 32, 1)
    optimizer = torch.optim.AdamW([*convolutions.parameters(), *out.parameters()], lr=0.003)
    lines = []
    for epoch in range(1, 11):
        for first in range(0, 1168, 32):
            inputs, targets = windows[first:min(first + 32, 1168)], series[32 + first:min(64 + first, 1200)]
            loss = F.mse_loss(predict(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if epoch % 2 == 0:
            lines.append(f"epoch {epoch}: loss {loss.item():.6f}")
    with torch.no_grad():
        lines.append(f"mean squared error {F.mse_loss(predict(windows[1168:1468]), series[1200:]).item():.6f}")
        past = windows[1168:1169]
        for _ in range(6):
            past = torch.cat([past[:, 1:], predict(past)[:, None]], 1)
    lines.append(f"six steps ahead {past[0, -1].item():.6f}")
    return lines


def serving():
    torch.manual_seed(6)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4), nn.Softmax(1))
    with torch.no_grad():
        model[2].weight *= 4  # so that the classes differ
    save("serving", {"hidden/weights": matrix(model[0]), "hidden/bias": model[0].bias,
                     "out/weights": matrix(model[2]), "out/bias": model[2].bias})
    answers = model(table(1000, 16, lambda n, i: math.sin(0.3 * n * (i + 1))))
    counts = torch.bincount(answers.argmax(1), minlength=4).tolist()
    return [f"classes: {' '.join(map(str, counts))}",
            *(f"request {n}: {' '.join(f'{p:.6f}' for p in answers[n].tolist())}" for n in (0, 1, 10, 999))]


for program in (cnn, dqn, forecast, gan, gru, serving, vae):
    results[program.__name__] = program()
    print(program.__name__, *results[program.__name__], sep="\n  ")
with open(os.path.join(folder, "expected.json"), "w") as file:
    json.dump(results, file, indent=1)
    file.write("\n")
