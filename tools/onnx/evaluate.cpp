// SPDX-License-Identifier: BSL-1.0
#include <algorithm>
#include <functional>

#include "importer.hpp"

/// Arithmetic with integers that are known at import, such as the extents of a reshape.
namespace tool::importer {

namespace {

using elements = std::optional<integers>;

constexpr std::size_t max_elements = 65536;

/// Calls f(index) for each element of these extents, in row-major order.
template <class F>
void for_each_index(const std::vector<std::size_t>& extents, F f) {
  std::vector<std::size_t> index(extents.size());
  std::size_t count = 1;
  for (const std::size_t n : extents) count *= n;
  for (std::size_t i = 0; i < count; ++i) {
    f(index);
    for (std::size_t axis = extents.size(); axis-- > 0;) {
      if (++index[axis] < extents[axis]) break;
      index[axis] = 0;
    }
  }
}

std::vector<std::size_t> sizes_of(const integers& extents) {
  std::vector<std::size_t> sizes;
  for (const integer& n : extents) sizes.push_back(static_cast<std::size_t>(n.number()));
  return sizes;
}

/// Returns the element of a value at an index; axes of extent 1 and missing leading axes broadcast.
const integer& at(const value& v, const std::vector<std::size_t>& index) {
  const std::vector<std::size_t> sizes = sizes_of(v.extents);
  std::size_t place = 0;
  const std::size_t missing = index.size() - sizes.size();
  for (std::size_t i = 0; i < sizes.size(); ++i) place = place * sizes[i] + (sizes[i] == 1 ? 0 : index[missing + i]);
  return v.elements->at(place);
}

/// Returns nothing for other operators, and if the result is not known.
std::optional<integer> combined(const std::string& op, const integer& a, const integer& b) {
  const bool divides = a.is_number() && b.is_number() && !b.is(0);
  if (op == "Add" || op == "Sum") return a + b;
  if (op == "Mul") return a * b;
  if (op == "And") return integer(!a.is(0) && !b.is(0));
  if (op == "Or") return integer(!a.is(0) || !b.is(0));
  if (op == "Div" && !b.is(0)) {
    if (const auto exact = exact_quotient(a, b)) return exact;
    return divides ? integer(a.number() / b.number()) : floor_quotient(a, b);  // extents are not negative
  }
  if (op == "fmod" && divides && !b.is(-1)) return integer(a.number() % b.number());
  if (op == "Mod" && divides) return a - floor_quotient(a, b) * b;
  const integer difference = a - b;
  if (op == "Sub") return difference;
  if (!difference.is_number()) return std::nullopt;
  const std::int64_t d = difference.number();
  if (op == "Max") return d < 0 ? b : a;
  if (op == "Min") return d < 0 ? a : b;
  if (op == "Equal") return integer(d == 0);
  if (op == "Greater") return integer(d > 0);
  if (op == "Less") return integer(d < 0);
  if (op == "GreaterOrEqual") return integer(d >= 0);
  if (op == "LessOrEqual") return integer(d <= 0);
  return std::nullopt;
}

/// Takes the elements of operand 0 at the indices that `source` returns for each index of the result.
elements moved(call& c, const std::function<std::vector<std::size_t>(const std::vector<std::size_t>&)>& source) {
  integers result;
  for_each_index(sizes_of(c.out[0]->extents),
                 [&](const auto& index) { result.push_back(at(*c.in[0], source(index))); });
  return result;
}

}  // namespace

elements evaluate(call& c) {
  const std::string& op = c.from.op_type;
  value& y = *c.out[0];
  if (c.in.empty()) return std::nullopt;
  for (const value* v : c.in)
    if (v ? !v->elements || v->last : op != "Slice") return std::nullopt;
  for (const integer& n : y.extents)
    if (!n.is_number() || n.number() < 0) return std::nullopt;
  const integer count = product_of(y.extents);
  if (count.number() > static_cast<std::int64_t>(max_elements)) return std::nullopt;
  const value& x = *c.in[0];

  if (op == "Identity" || op == "Reshape" || op == "Squeeze" || op == "Unsqueeze" || op == "Flatten") return x.elements;
  if (op == "Cast") {
    integers result = *x.elements;
    if (y.type == boolean)
      for (integer& n : result) n = n.is(0) ? 0 : 1;
    if (y.type == int32)
      for (const integer& n : result)
        if (n.is_number() && n.number() != static_cast<std::int32_t>(n.number())) return std::nullopt;
    return result;
  }
  if (op == "Neg" || op == "Abs" || op == "Not") {
    integers result;
    for (const integer& n : *x.elements) {
      if (op == "Abs" && !n.is_number()) return std::nullopt;
      result.push_back(op == "Not" ? integer(n.is(0)) : op == "Neg" || n.number() < 0 ? integer(0) - n : n);
    }
    return result;
  }
  if (op == "Where") {
    integers result;
    for_each_index(sizes_of(y.extents),
                   [&](const auto& i) { result.push_back(at(x, i).is(0) ? at(*c.in[2], i) : at(*c.in[1], i)); });
    return result;
  }
  if (op == "Concat") {
    const std::size_t axis = c.axis(c.number("axis", 0), x.rank());
    integers result;
    for_each_index(sizes_of(y.extents), [&](std::vector<std::size_t> index) {
      for (const value* v : c.in) {
        const auto n = static_cast<std::size_t>(v->extents[axis].number());
        if (index[axis] < n) return result.push_back(at(*v, index));
        index[axis] -= n;
      }
    });
    return result;
  }
  if (op == "Gather") {
    const std::size_t axis = c.axis(c.number("axis", 0), x.rank()), depth = c.in[1]->rank();
    for (const integer& n : *c.in[1]->elements)
      if (!n.is_number() || n.number() < -x.extents[axis].number() || n.number() >= x.extents[axis].number())
        c.refuse("an index is out of range");
    return moved(c, [&](const auto& index) {
      std::vector<std::size_t> from(index.begin(), index.begin() + static_cast<std::ptrdiff_t>(axis));
      const auto middle = index.begin() + static_cast<std::ptrdiff_t>(axis);
      const std::int64_t n = at(*c.in[1], {middle, middle + static_cast<std::ptrdiff_t>(depth)}).number();
      from.push_back(static_cast<std::size_t>(n < 0 ? n + x.extents[axis].number() : n));
      from.insert(from.end(), middle + static_cast<std::ptrdiff_t>(depth), index.end());
      return from;
    });
  }
  if (op == "Slice") {
    for (std::size_t i = 1; i < c.in.size(); ++i)
      for (const integer& n : c.has(i) ? *c.in[i]->elements : integers())
        if (!n.is_number()) return std::nullopt;
    const std::vector<std::int64_t> starts = c.list_or_operand("starts", 1), axes = c.list_or_operand("axes", 3),
                                    by = c.list_or_operand("", 4);
    std::vector<std::int64_t> begins(x.rank(), 0), steps(x.rank(), 1);
    for (std::size_t i = 0; i < starts.size(); ++i) {
      const std::size_t axis = axes.empty() ? i : c.axis(axes[i], x.rank());
      const std::int64_t n = x.extents[axis].number(), step = by.empty() ? 1 : by[i];
      const std::int64_t last = step < 0 ? std::max<std::int64_t>(n - 1, 0) : n;
      begins[axis] = std::clamp<std::int64_t>(starts[i] < 0 ? starts[i] + n : starts[i], 0, last);
      steps[axis] = step;
    }
    return moved(c, [&](std::vector<std::size_t> index) {
      for (std::size_t i = 0; i < index.size(); ++i)
        index[i] = static_cast<std::size_t>(begins[i] + steps[i] * static_cast<std::int64_t>(index[i]));
      return index;
    });
  }
  if (op == "Transpose") {
    std::vector<std::int64_t> perm;
    for (std::size_t i = x.rank(); i-- > 0;) perm.push_back(static_cast<std::int64_t>(i));
    perm = c.list("perm", perm);
    return moved(c, [&](const auto& index) {
      std::vector<std::size_t> from(index.size());
      for (std::size_t i = 0; i < index.size(); ++i) from[static_cast<std::size_t>(perm[i])] = index[i];
      return from;
    });
  }
  if (op == "Expand") return moved(c, [&](const auto& index) { return index; });
  if (op == "Range") {
    integers result;
    for (std::int64_t i = 0; i < count.number(); ++i)
      result.push_back(x.elements->at(0) + integer(i) * c.in[2]->elements->at(0));
    return result;
  }
  if (op == "ReduceProd" || op == "ReduceSum" || op == "ReduceMax" || op == "ReduceMin") {
    if (!product_of(y.extents).is(1) || x.elements->empty()) return std::nullopt;
    std::optional<integer> result = x.elements->at(0);
    for (std::size_t i = 1; i < x.elements->size() && result; ++i)
      result = op == "ReduceProd"  ? *result * (*x.elements)[i]
               : op == "ReduceSum" ? *result + (*x.elements)[i]
                                   : combined(op == "ReduceMax" ? "Max" : "Min", *result, (*x.elements)[i]);
    return result ? elements(integers{*result}) : std::nullopt;
  }
  const std::string function = op == "Mod" && c.flag("fmod") ? "fmod" : op;
  if (!combined(function, 1, 1)) return std::nullopt;
  integers result;
  bool known = c.in.size() > 1;
  for_each_index(sizes_of(y.extents), [&](const auto& index) {
    std::optional<integer> sum = at(x, index);
    for (std::size_t i = 1; i < c.in.size() && sum; ++i) sum = combined(function, *sum, at(*c.in[i], index));
    known &= sum.has_value();
    const integer number = sum.value_or(integer(0));
    if (y.type == int32 && number.is_number()) known &= number.number() == static_cast<std::int32_t>(number.number());
    result.push_back(number);
  });
  return known ? elements(result) : std::nullopt;
}

}  // namespace tool::importer
