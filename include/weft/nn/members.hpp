// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <string_view>
#include <type_traits>
#include <utility>

#include <weft/config.hpp>

/// Finds the members of an aggregate: their number, references and names.
namespace weft::nn::detail {

/// Base of types that convert to a member's type. A constructor that accepts any type must reject them.
struct member_probe {};

/// Converts to any member of an aggregate, to count them.
struct any_member : member_probe {
  template <class T>
  operator T() const;
};

inline constexpr std::size_t max_members = 32, max_initializers = 256;

/// Returns the maximum number of initializers of an aggregate: one for each member, and one for each element of a
/// member that is an array. Smaller numbers can fail if a member has no default value. Returns more than
/// max_initializers if the number is larger or unknown.
template <class T, bool Enough = false, class... Initializers>
constexpr std::size_t count_initializers() {
  constexpr std::size_t count = sizeof...(Initializers);
  if constexpr (count > max_initializers || (!Enough && count > max_members))
    return max_initializers + 1;
  else if constexpr (requires { T{std::declval<Initializers>()...}; })
    return count_initializers<T, true, Initializers..., any_member>();
  else if constexpr (Enough)
    return count - 1;
  else
    return count_initializers<T, false, Initializers..., any_member>();
}

/// Returns true if T{{}, {}, ...} compiles: if T takes `Count` initializers, no member is then an array of several
/// elements.
template <class T, std::size_t Count>
constexpr bool takes_braces() {
  if constexpr (Count == 0) return true;
#define WEFT_BRACES_8 \
  {}, {}, {}, {}, {}, {}, {}, {}
#define WEFT_BRACES(count, ...) else if constexpr (Count == count) return requires { T{__VA_ARGS__}; };
  WEFT_BRACES(1, {})
  WEFT_BRACES(2, {}, {})
  WEFT_BRACES(3, {}, {}, {})
  WEFT_BRACES(4, {}, {}, {}, {})
  WEFT_BRACES(5, {}, {}, {}, {}, {})
  WEFT_BRACES(6, {}, {}, {}, {}, {}, {})
  WEFT_BRACES(7, {}, {}, {}, {}, {}, {}, {})
  WEFT_BRACES(8, {}, {}, {}, {}, {}, {}, {}, {})
  WEFT_BRACES(9, WEFT_BRACES_8, {})
  WEFT_BRACES(10, WEFT_BRACES_8, {}, {})
  WEFT_BRACES(11, WEFT_BRACES_8, {}, {}, {})
  WEFT_BRACES(12, WEFT_BRACES_8, {}, {}, {}, {})
  WEFT_BRACES(13, WEFT_BRACES_8, {}, {}, {}, {}, {})
  WEFT_BRACES(14, WEFT_BRACES_8, {}, {}, {}, {}, {}, {})
  WEFT_BRACES(15, WEFT_BRACES_8, {}, {}, {}, {}, {}, {}, {})
  WEFT_BRACES(16, WEFT_BRACES_8, {}, {}, {}, {}, {}, {}, {}, {})
  WEFT_BRACES(17, WEFT_BRACES_8, WEFT_BRACES_8, {})
  WEFT_BRACES(18, WEFT_BRACES_8, WEFT_BRACES_8, {}, {})
  WEFT_BRACES(19, WEFT_BRACES_8, WEFT_BRACES_8, {}, {}, {})
  WEFT_BRACES(20, WEFT_BRACES_8, WEFT_BRACES_8, {}, {}, {}, {})
  WEFT_BRACES(21, WEFT_BRACES_8, WEFT_BRACES_8, {}, {}, {}, {}, {})
  WEFT_BRACES(22, WEFT_BRACES_8, WEFT_BRACES_8, {}, {}, {}, {}, {}, {})
  WEFT_BRACES(23, WEFT_BRACES_8, WEFT_BRACES_8, {}, {}, {}, {}, {}, {}, {})
  WEFT_BRACES(24, WEFT_BRACES_8, WEFT_BRACES_8, {}, {}, {}, {}, {}, {}, {}, {})
  WEFT_BRACES(25, WEFT_BRACES_8, WEFT_BRACES_8, WEFT_BRACES_8, {})
  WEFT_BRACES(26, WEFT_BRACES_8, WEFT_BRACES_8, WEFT_BRACES_8, {}, {})
  WEFT_BRACES(27, WEFT_BRACES_8, WEFT_BRACES_8, WEFT_BRACES_8, {}, {}, {})
  WEFT_BRACES(28, WEFT_BRACES_8, WEFT_BRACES_8, WEFT_BRACES_8, {}, {}, {}, {})
  WEFT_BRACES(29, WEFT_BRACES_8, WEFT_BRACES_8, WEFT_BRACES_8, {}, {}, {}, {}, {})
  WEFT_BRACES(30, WEFT_BRACES_8, WEFT_BRACES_8, WEFT_BRACES_8, {}, {}, {}, {}, {}, {})
  WEFT_BRACES(31, WEFT_BRACES_8, WEFT_BRACES_8, WEFT_BRACES_8, {}, {}, {}, {}, {}, {}, {})
  WEFT_BRACES(32, WEFT_BRACES_8, WEFT_BRACES_8, WEFT_BRACES_8, {}, {}, {}, {}, {}, {}, {}, {})
#undef WEFT_BRACES
#undef WEFT_BRACES_8
  else return false;
}

/// Returns true if T{a, ..., {b, ...}, c, ...} compiles.
template <class T, std::size_t Before, std::size_t Within, std::size_t Behind>
constexpr bool takes_nested() {
  return []<std::size_t... A, std::size_t... B, std::size_t... C>(std::index_sequence<A...>, std::index_sequence<B...>,
                                                                  std::index_sequence<C...>) {
    return requires {
      T{(static_cast<void>(A), any_member())...,
        {(static_cast<void>(B), any_member())...},
        (static_cast<void>(C), any_member())...};
    };
  }(std::make_index_sequence<Before>(), std::make_index_sequence<Within>(), std::make_index_sequence<Behind>());
}

/// Returns the number of elements of the array that begins with initializer `At` of `Count`; 1 if no array begins
/// there. Braced elements replace exactly one member of array type; other members cannot absorb them.
template <class T, std::size_t Count, std::size_t At, std::size_t Elements = 2>
constexpr std::size_t elements_of_array() {
  if constexpr (At + Elements > Count)
    return 1;
  else if constexpr (takes_nested<T, At, Elements, Count - At - Elements>() &&
                     !takes_nested<T, At, Elements, Count - At - Elements + 1>())
    return Elements;
  else
    return elements_of_array<T, Count, At, Elements + 1>();
}
template <class T, std::size_t Count, std::size_t At = 0>
constexpr std::size_t count_members_from() {
  if constexpr (At >= Count)
    return 0;
  else
    return 1 + count_members_from<T, Count, At + elements_of_array<T, Count, At>()>();
}

/// Returns the number of an aggregate's members, or more than max_members if it is larger or unknown.
template <class T>
constexpr std::size_t count_members() {
  constexpr std::size_t count = count_initializers<T>();
  if constexpr (count > max_initializers)
    return count;
  else if constexpr (takes_braces<T, count>())
    return count;
  else
    return count_members_from<T, count>();
}

/// Converts only to base classes of T.
template <class T>
struct any_base : member_probe {
  template <class Base>
    requires(!std::is_same_v<Base, T> && std::is_base_of_v<Base, T>)
  operator Base() const;
};

template <class T>
constexpr std::string_view name_of_type() {
  return __PRETTY_FUNCTION__;
}
template <class T>
constexpr bool is_unnamed_union() {
  constexpr std::string_view name = name_of_type<T>();
  return std::is_union_v<T> && (name.find("<unnamed union>") != name.npos ||
                                name.find("(anonymous union") != name.npos || name.find("(unnamed union") != name.npos);
}
/// Converts only to unnamed unions.
struct any_unnamed_union : member_probe {
  template <class Union>
    requires(is_unnamed_union<Union>())
  operator Union() const;
};
/// Converts to nothing: it initializes only members whose constructors accept any type.
struct no_member : member_probe {};

/// Returns true if a `Probe` can be initializer `At` of the `Count` initializers of an aggregate.
template <class T, std::size_t Count, std::size_t At, class Probe>
constexpr bool takes_probe() {
  return
      []<std::size_t... Before, std::size_t... After>(std::index_sequence<Before...>, std::index_sequence<After...>) {
        return requires {
          T{(static_cast<void>(Before), any_member())..., Probe(), (static_cast<void>(After), any_member())...};
        };
      }(std::make_index_sequence<At>(), std::make_index_sequence<Count - At - 1>());
}
/// Returns true if initializer `At` has a type to which `Probe` converts.
template <class T, std::size_t Count, std::size_t At, class Probe>
constexpr bool member_is() {
  if constexpr (takes_probe<T, Count, At, Probe>())
    return !takes_probe<T, Count, At, no_member>();
  else
    return false;
}

/// Returns true if an aggregate with `Count` initializers has a base class, which the first one initializes.
template <class T, std::size_t Count>
constexpr bool has_bases() {
  if constexpr (Count == 0)
    return false;
  else
    return member_is<T, Count, 0, any_base<T>>();
}
/// Returns true if a member is an unnamed union. Weft cannot find the members of an anonymous union, and cannot
/// distinguish it from a member of an unnamed union type.
template <class T, std::size_t Count>
constexpr bool has_unnamed_unions() {
  return []<std::size_t... At>(std::index_sequence<At...>) {
    return (member_is<T, Count, At, any_unnamed_union>() || ...);
  }(std::make_index_sequence<Count>());
}

/// Calls function(member...) for an aggregate of at most 32 members.
template <std::size_t Count, class T, class F>
constexpr decltype(auto) with_members(T& object, F&& function) {
  if constexpr (Count == 0) return function();
#define WEFT_MEMBERS(count, ...)       \
  else if constexpr (Count == count) { \
    auto& [__VA_ARGS__] = object;      \
    return function(__VA_ARGS__);      \
  }
  WEFT_MEMBERS(1, a)
  WEFT_MEMBERS(2, a, b)
  WEFT_MEMBERS(3, a, b, c)
  WEFT_MEMBERS(4, a, b, c, d)
  WEFT_MEMBERS(5, a, b, c, d, e)
  WEFT_MEMBERS(6, a, b, c, d, e, f)
  WEFT_MEMBERS(7, a, b, c, d, e, f, g)
  WEFT_MEMBERS(8, a, b, c, d, e, f, g, h)
  WEFT_MEMBERS(9, a, b, c, d, e, f, g, h, i)
  WEFT_MEMBERS(10, a, b, c, d, e, f, g, h, i, j)
  WEFT_MEMBERS(11, a, b, c, d, e, f, g, h, i, j, k)
  WEFT_MEMBERS(12, a, b, c, d, e, f, g, h, i, j, k, l)
  WEFT_MEMBERS(13, a, b, c, d, e, f, g, h, i, j, k, l, m)
  WEFT_MEMBERS(14, a, b, c, d, e, f, g, h, i, j, k, l, m, n)
  WEFT_MEMBERS(15, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o)
  WEFT_MEMBERS(16, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)
  WEFT_MEMBERS(17, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q)
  WEFT_MEMBERS(18, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r)
  WEFT_MEMBERS(19, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s)
  WEFT_MEMBERS(20, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, u)
  WEFT_MEMBERS(21, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, u, v)
  WEFT_MEMBERS(22, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, u, v, w)
  WEFT_MEMBERS(23, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, u, v, w, x)
  WEFT_MEMBERS(24, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, u, v, w, x, y)
  WEFT_MEMBERS(25, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, u, v, w, x, y, z)
  WEFT_MEMBERS(26, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, u, v, w, x, y, z, aa)
  WEFT_MEMBERS(27, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, u, v, w, x, y, z, aa, ab)
  WEFT_MEMBERS(28, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, u, v, w, x, y, z, aa, ab, ac)
  WEFT_MEMBERS(29, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, u, v, w, x, y, z, aa, ab, ac, ad)
  WEFT_MEMBERS(30, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, u, v, w, x, y, z, aa, ab, ac, ad, ae)
  WEFT_MEMBERS(31, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, u, v, w, x, y, z, aa, ab, ac, ad, ae, af)
  WEFT_MEMBERS(32, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, u, v, w, x, y, z, aa, ab, ac, ad, ae, af,
               ag)
#undef WEFT_MEMBERS
}

// A member's name is part of the name of a function whose template argument is the member's address.

#if defined(__clang__)
  #pragma clang diagnostic push
  #pragma clang diagnostic ignored "-Wundefined-var-template"
  #pragma clang diagnostic ignored "-Wundefined-internal"
#endif
template <class T>
struct wrapped {
  T value;
};
template <class T>
extern const wrapped<T> no_model;  // never defined: only addresses of its members are formed

template <class Member>
struct member_pointer {
  const Member* address;
};
template <std::size_t Index, class First, class... Rest>
constexpr auto pointer_to(const First& first, const Rest&... rest) {
  if constexpr (Index == 0)
    return member_pointer<First>{&first};
  else
    return pointer_to<Index - 1>(rest...);
}
template <class T, std::size_t Count, std::size_t Index>
constexpr auto pointer_in() {
  return with_members<Count>(no_model<T>.value, [](const auto&... m) { return pointer_to<Index>(m...); });
}
#if defined(__clang__)
  #pragma clang diagnostic pop
#endif
template <auto Pointer>
constexpr std::string_view function_name() {
  return __PRETTY_FUNCTION__;
}

template <auto Pointer>
struct pointer_constant {};
/// False for a reference: it has no address of its own, and thus no name.
template <class T, std::size_t Count, std::size_t Index>
concept MemberHasName = requires { typename pointer_constant<pointer_in<T, Count, Index>()>; };

/// Returns the number of members of an aggregate whose members all have names, or `no_members` if Weft cannot find
/// them: if there are more than 32, one is a reference or an unnamed union, or the aggregate has a base class.
inline constexpr std::size_t no_members = ~std::size_t{0};
template <class T>
constexpr std::size_t count_named_members() {
  constexpr std::size_t initializers = count_initializers<T>();
  if constexpr (std::is_union_v<T> || initializers > max_initializers || (initializers == 0 && !std::is_empty_v<T>)) {
    return no_members;
  } else if constexpr (has_bases<T, initializers>() || has_unnamed_unions<T, initializers>()) {
    return no_members;
  } else {
    constexpr std::size_t count = count_members<T>();
    if constexpr (count > max_members) {
      return no_members;
    } else {
      constexpr bool named = []<std::size_t... Index>(std::index_sequence<Index...>) {
        return (MemberHasName<T, count, Index> && ...);
      }(std::make_index_sequence<count>());
      return named ? count : no_members;
    }
  }
}

/// Extracts "first" from "...member_pointer<...>{(& no_model<lenet>.wrapped<lenet>::value.lenet::first)}...".
template <class T, std::size_t Count, std::size_t Index>
consteval std::string_view member_name() {
  const std::string_view text = function_name<pointer_in<T, Count, Index>()>();
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  std::size_t end = text.rfind('}');
  while (!is_letter(text[end - 1])) --end;
  std::size_t begin = end;
  while (is_letter(text[begin - 1])) --begin;
  return text.substr(begin, end - begin);
}

}  // namespace weft::nn::detail
