// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <sstream>
#include <string>
#include <vector>

/// Programs at random, as text: a line for each step, the name of a block and the numbers of the values it reads. The
/// blocks are compiled (random/blocks.hpp), so a program is written, read, made smaller and run without a compiler.
namespace random_programs {

/// Properties that a block has besides its operands and its result.
enum block_flags : unsigned {
  smooth = 1,   ///< differences tell all of its gradients
  draws = 2,    ///< random numbers
  writes = 4,   ///< variables; there is no gradient of it
  stops = 8,    ///< gradients, which differences do not see
  rounds = 16,  ///< to half or bfloat16
};

/// A kind of value is a letter: matrix [batch, width], row [width], column [batch, 1], weights [width, width], scalar,
/// pictures [batch, 4, 4, 2], filters (K) [3, 3, 2, 2], labels [batch] below width, and conditions (B) [batch, width].
/// Variables are r and w, which are rows and weights as well.
struct block_description {
  const char* name;
  std::string operands;
  char result;
  unsigned flags;
};

using blocks_known = std::vector<block_description>;

/// The kinds of the values that every program begins with.
inline const char* const leaves = "MMRCWPKLLBSrw";

struct instruction {
  std::size_t block;
  std::vector<std::size_t> operands;
};

struct random_program {
  unsigned seed = 0;
  std::int64_t rows = 3;
  std::vector<instruction> steps;
};

inline bool accepts(char wanted, char kind) {
  return wanted == kind || (wanted == 'R' && kind == 'r') || (wanted == 'W' && kind == 'w');
}

inline char kind_of(const blocks_known& known, const random_program& p, std::size_t value) {
  const std::size_t n = std::strlen(leaves);
  return value < n ? leaves[value] : known[p.steps[value - n].block].result;
}

/// Adds steps, each of blocks that have none of the flags.
inline void extend(const blocks_known& known, random_program& p, std::mt19937& random, std::size_t count,
                   unsigned without, unsigned with = 0) {
  std::vector<std::size_t> allowed;
  for (std::size_t b = 0; b < known.size(); ++b)
    if (!(known[b].flags & without) && (known[b].flags & with) == with) allowed.push_back(b);
  while (count-- > 0) {
    instruction step{allowed[random() % allowed.size()], {}};
    for (const char wanted : known[step.block].operands) {
      std::vector<std::size_t> from;
      for (std::size_t v = 0; v < std::strlen(leaves) + p.steps.size(); ++v)
        if (accepts(wanted, kind_of(known, p, v))) from.push_back(v);
      // New values are taken more often than old ones.
      const std::size_t n = from.size(), k = random() % n;
      step.operands.push_back(from[random() % 3 == 0 ? k : n - 1 - (n - 1 - k) / 2]);
    }
    p.steps.push_back(step);
  }
}

inline std::string to_string(const blocks_known& known, const random_program& p) {
  std::string text = "program " + std::to_string(p.seed) + " " + std::to_string(p.rows) + "\n";
  for (const instruction& i : p.steps) {
    text += known[i.block].name;
    for (const std::size_t o : i.operands) text += " " + std::to_string(o);
    text += "\n";
  }
  return text;
}

/// One step of such a text; false if there is no block of that name, or its operands are others.
inline bool read_step(const blocks_known& known, random_program& p, const std::string& line) {
  std::istringstream words(line);
  std::string name;
  words >> name;
  for (std::size_t b = 0; b < known.size(); ++b) {
    if (known[b].name != name) continue;
    instruction step{b, {}};
    for (std::size_t o; words >> o;) step.operands.push_back(o);
    if (step.operands.size() != known[b].operands.size()) return false;
    for (std::size_t o = 0; o < step.operands.size(); ++o)
      if (step.operands[o] >= std::strlen(leaves) + p.steps.size() ||
          !accepts(known[b].operands[o], kind_of(known, p, step.operands[o])))
        return false;
    p.steps.push_back(step);
    return true;
  }
  return false;
}

/// Without one step: whoever read its result reads the last value of the kind before it.
inline random_program without(const blocks_known& known, const random_program& p, std::size_t step) {
  random_program less = p;
  const std::size_t gone = std::strlen(leaves) + step;
  less.steps.erase(less.steps.begin() + static_cast<std::ptrdiff_t>(step));
  for (std::size_t i = step; i < less.steps.size(); ++i)
    for (std::size_t o = 0; o < less.steps[i].operands.size(); ++o) {
      std::size_t& v = less.steps[i].operands[o];
      if (v > gone) {
        --v;
      } else if (v == gone) {
        const char wanted = known[less.steps[i].block].operands[o];
        while (v == gone || !accepts(wanted, kind_of(known, p, v))) --v;
      }
    }
  return less;
}

/// Word i of leaf or variable `value` of the program with that seed. make_random_program_values.py has it too.
inline std::uint64_t word(unsigned seed, std::size_t value, std::size_t i) {
  std::uint64_t z = ((std::uint64_t{seed} << 32) + (value << 24) + i) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}
/// A number in [-1, 1) that float holds.
inline double number(unsigned seed, std::size_t value, std::size_t i) {
  return static_cast<double>(word(seed, value, i) >> 40) / (1 << 23) - 1;
}

}  // namespace random_programs
