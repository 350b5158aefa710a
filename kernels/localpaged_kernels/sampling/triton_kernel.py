"""Triton kernel that draws without sorting: thresholds are found by bisection.

A filter leaves the first so many tokens in the order of their logits, and so does the mass in front
of the token that is drawn. Each is found as the least value above which there is less than some
count or mass; how many of the tokens that have that very value belong to it is then a division.
Mostly a few likely tokens are all that a filter can leave: then they alone are searched.
"""

import triton
import triton.language as tl

BELOW_COUNT: tl.constexpr = tl.constexpr(0)
BELOW_MASS: tl.constexpr = tl.constexpr(1)
AT_MOST_MASS: tl.constexpr = tl.constexpr(2)
LEAST_KEY: tl.constexpr = tl.constexpr(-2147483648)
GREATEST_KEY: tl.constexpr = tl.constexpr(2147483647)
MINUS_INFINITY_KEY: tl.constexpr = tl.constexpr(-2139095041)
ALMOST_ONE: tl.constexpr = tl.constexpr(0.99999994)
NEAR: tl.constexpr = tl.constexpr(4.0)
FAR: tl.constexpr = tl.constexpr(9.0)
FURTHEST: tl.constexpr = tl.constexpr(15.0)
"""Powers of two by which a likely token may be less likely than the likeliest."""

AHEAD: tl.constexpr = tl.constexpr(4)
"""Stages of a pass over the vocabulary that does little with each number: it waits for memory."""


@triton.jit
def _flip(bits):
    # Order the bits of floats like the floats, and back: of negative ones all but the sign turn.
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


@triton.jit
def _read(start, base, vocab, BLOCK: tl.constexpr):
    ids = base + tl.arange(0, BLOCK)
    # Adding zero makes the negative zero a zero.
    return tl.load(start + ids, mask=ids < vocab, other=-float("inf")).to(tl.float32) + 0.0


@triton.jit
def _kept(x, top, rate, least):
    weight = tl.exp2((x - top) * rate)
    return tl.where(weight >= least, weight, 0.0)


@triton.jit
def _middle(low, high):
    return (low & high) + ((low ^ high) >> 1)


@triton.jit
def _look(keys, weights, pivot, count, mass, below, over):
    # Count and mass above a pivot; the greatest key that is not, the least that is.
    is_above = keys > pivot
    return (
        count + is_above.to(tl.int32),
        mass + tl.where(is_above, weights, 0.0),
        tl.maximum(below, tl.where(is_above, LEAST_KEY, keys)),
        tl.minimum(over, tl.where(is_above, keys, GREATEST_KEY)),
    )


@triton.jit
def _holds(count, mass, want_count, want_mass, GOAL: tl.constexpr):
    if GOAL == BELOW_COUNT:
        return count < want_count
    elif GOAL == BELOW_MASS:
        return mass < want_mass
    else:
        return mass <= want_mass


@triton.jit
def _search(
    start, vocab, low, top, rate, want_count, want_mass, GOAL: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    # The least key of a token above `low` with less than is wanted above it, and what is above it.
    # Three pivots a pass; both ends then move to keys that there are, so that few passes suffice.
    high = _flip(top.to(tl.int32, bitcast=True))
    count = high * 0
    mass = top * 0.0
    while low < high - 1:
        second = _middle(low, high)
        first = _middle(low, second)
        third = _middle(second, high)
        zeros = tl.zeros([BLOCK], tl.int32)
        count_1, count_2, count_3 = zeros, zeros, zeros
        below_1, below_2, below_3 = zeros + LEAST_KEY, zeros + LEAST_KEY, zeros + LEAST_KEY
        over_1, over_2, over_3 = zeros + GREATEST_KEY, zeros + GREATEST_KEY, zeros + GREATEST_KEY
        mass_1 = tl.zeros([BLOCK], tl.float32)
        mass_2, mass_3 = mass_1, mass_1
        for base in range(0, vocab, BLOCK):
            x = _read(start, base, vocab, BLOCK)
            keys = _flip(x.to(tl.int32, bitcast=True))
            weights = _kept(x, top, rate, 0.0)
            count_1, mass_1, below_1, over_1 = _look(
                keys, weights, first, count_1, mass_1, below_1, over_1
            )
            count_2, mass_2, below_2, over_2 = _look(
                keys, weights, second, count_2, mass_2, below_2, over_2
            )
            count_3, mass_3, below_3, over_3 = _look(
                keys, weights, third, count_3, mass_3, below_3, over_3
            )
        above_1, above_2, above_3 = tl.sum(count_1, 0), tl.sum(count_2, 0), tl.sum(count_3, 0)
        sum_1, sum_2, sum_3 = tl.sum(mass_1, 0), tl.sum(mass_2, 0), tl.sum(mass_3, 0)
        if _holds(above_1, sum_1, want_count, want_mass, GOAL):
            count = above_1
            mass = sum_1
            high = tl.max(below_1, 0)
            if high <= low:
                # By rounding nobody has as much above: the last token is it.
                high = tl.min(over_1, 0)
                low = high - 1
        elif _holds(above_2, sum_2, want_count, want_mass, GOAL):
            count = above_2
            mass = sum_2
            high = tl.max(below_2, 0)
            low = tl.min(over_1, 0) - 1
        elif _holds(above_3, sum_3, want_count, want_mass, GOAL):
            count = above_3
            mass = sum_3
            high = tl.max(below_3, 0)
            low = tl.min(over_2, 0) - 1
        else:
            low = tl.min(over_3, 0) - 1
    return high, count, mass


@triton.jit
def _weight_of(key, top, rate):
    value = _flip(key).to(tl.float32, bitcast=True)
    return tl.exp2((value - top) * rate)


@triton.jit
def _is_at(start, base, vocab, key, BLOCK: tl.constexpr):
    x = _read(start, base, vocab, BLOCK)
    is_own = (base + tl.arange(0, BLOCK)) < vocab
    return ((_flip(x.to(tl.int32, bitcast=True)) == key) & is_own).to(tl.int32)


@triton.jit
def _by_id(start, vocab, top, rate, least, number, BLOCK: tl.constexpr):
    # Sums of whole blocks are added in the same order twice: so the target is passed for certain.
    total = top * 0.0
    for base in tl.range(0, vocab, BLOCK, num_stages=AHEAD):
        total += tl.sum(_kept(_read(start, base, vocab, BLOCK), top, rate, least), 0)
    target = tl.minimum(number * total, total * ALMOST_ONE)
    passed = top * 0.0
    base = 0
    weights = _kept(_read(start, base, vocab, BLOCK), top, rate, least)
    own = tl.sum(weights, 0)
    while (passed + own <= target) & (base + BLOCK < vocab):
        passed += own
        base += BLOCK
        weights = _kept(_read(start, base, vocab, BLOCK), top, rate, least)
        own = tl.sum(weights, 0)
    ids = base + tl.arange(0, BLOCK)
    is_past = (passed + tl.cumsum(weights, 0) > target) & (weights > 0.0)
    found = tl.min(tl.where(is_past, ids, vocab), 0)
    last = tl.max(tl.where(weights > 0.0, ids, 0), 0)
    return tl.minimum(found, last)


@triton.jit
def _shortlist(start, vocab, top, rate, k, p, values, ids, BLOCK: tl.constexpr):
    # Lists the tokens that the filters can leave, by id, where they are BLOCK at most; returns how
    # many, 0 for no list, and the mass of all tokens.
    near = top - NEAR / rate
    far = top - FAR / rate
    furthest = top - FURTHEST / rate
    zeros = tl.zeros([BLOCK], tl.int32)
    count_1, count_2, count_3 = zeros, zeros, zeros
    mass_0 = tl.zeros([BLOCK], tl.float32)
    mass_1, mass_2, mass_3 = mass_0, mass_0, mass_0
    for base in tl.range(0, vocab, BLOCK, num_stages=AHEAD):
        x = _read(start, base, vocab, BLOCK)
        weights = _kept(x, top, rate, 0.0)
        mass_0 += weights
        count_1 += (x >= near).to(tl.int32)
        mass_1 += tl.where(x >= near, weights, 0.0)
        count_2 += (x >= far).to(tl.int32)
        mass_2 += tl.where(x >= far, weights, 0.0)
        count_3 += (x >= furthest).to(tl.int32)
        mass_3 += tl.where(x >= furthest, weights, 0.0)
    total = tl.sum(mass_0, 0)
    wanted = p * total
    bound = furthest
    count = tl.sum(count_3, 0)
    is_enough = tl.where(k > 0, count >= k, tl.sum(mass_3, 0) >= wanted)
    fewer = tl.sum(count_2, 0)
    if tl.where(k > 0, fewer >= k, tl.sum(mass_2, 0) >= wanted):
        bound = far
        count = fewer
    fewer = tl.sum(count_1, 0)
    if tl.where(k > 0, fewer >= k, tl.sum(mass_1, 0) >= wanted):
        bound = near
        count = fewer
    count = tl.where(is_enough & (count <= BLOCK), count, 0)
    if count > 0:
        listed = count * 0
        for base in tl.range(0, vocab, BLOCK, num_stages=AHEAD):
            x = _read(start, base, vocab, BLOCK)
            is_listed = (x >= bound).to(tl.int32)
            own = tl.sum(is_listed, 0)
            if own > 0:
                places = listed + tl.cumsum(is_listed, 0) - 1
                tl.store(values + places, x, mask=is_listed > 0)
                tl.store(ids + places, base + tl.arange(0, BLOCK), mask=is_listed > 0)
                listed += own
        # All threads' stores are done before any of them reads the list.
        tl.debug_barrier()
    return count, total


@triton.jit
def _by_order(start, vocab, top, rate, k, p, least, number, total, BLOCK: tl.constexpr):
    # `total` is the mass of all tokens, also of those that are not in a list of likely ones.
    # What is further down has a weight of less than 2^-126.
    least_value = tl.maximum(top - 126.0 / rate, -3.4e38)
    lightest = _flip(least_value.to(tl.int32, bitcast=True)) - 1
    p_ties = k * 0
    p_key = p_ties + LEAST_KEY
    if k > 0:
        wanted = tl.minimum(k, vocab)
        p_key, above, mass = _search(
            start, vocab, p_ties + MINUS_INFINITY_KEY - 1, top, rate, wanted, 0.0, BELOW_COUNT,
            BLOCK,
        )  # fmt: skip
        p_ties = wanted - above
        total = mass + p_ties.to(tl.float32) * _weight_of(p_key, top, rate)
    if p < 1.0:
        k_key = p_key
        k_ties = p_ties
        p_key, above, mass = _search(
            start, vocab, lightest, top, rate, 0, p * total, BELOW_MASS, BLOCK
        )
        weight = _weight_of(p_key, top, rate)
        p_ties = tl.maximum(tl.ceil((p * total - mass) / weight), 1.0).to(tl.int32)
        p_ties = tl.where(p_key == k_key, tl.minimum(p_ties, k_ties), p_ties)
        total = mass + p_ties.to(tl.float32) * weight
    if least > 0.0:
        likely = tl.zeros([BLOCK], tl.float32)
        for base in range(0, vocab, BLOCK):
            likely += _kept(_read(start, base, vocab, BLOCK), top, rate, least)
        total = tl.minimum(total, tl.sum(likely, 0))
    target = tl.minimum(number * total, total * ALMOST_ONE)
    key, above, mass = _search(start, vocab, lightest, top, rate, 0, target, AT_MOST_MASS, BLOCK)
    place = ((target - mass) / _weight_of(key, top, rate)).to(tl.int32)
    # By rounding it may seem to lie behind the last token that is left.
    place = tl.where(key < p_key, p_ties - 1, place)
    key = tl.maximum(key, p_key)
    place = tl.where(key == p_key, tl.minimum(place, p_ties - 1), place)

    ties = tl.zeros([BLOCK], tl.int32)
    for base in range(0, vocab, BLOCK):
        ties += _is_at(start, base, vocab, key, BLOCK)
    place = tl.minimum(place, tl.sum(ties, 0) - 1)
    passed = place * 0
    base = 0
    is_tie = _is_at(start, base, vocab, key, BLOCK)
    own = tl.sum(is_tie, 0)
    while passed + own <= place:
        passed += own
        base += BLOCK
        is_tie = _is_at(start, base, vocab, key, BLOCK)
        own = tl.sum(is_tie, 0)
    ids = base + tl.arange(0, BLOCK)
    is_past = (is_tie > 0) & (passed + tl.cumsum(is_tie, 0) > place)
    return tl.min(tl.where(is_past, ids, vocab), 0)


@triton.jit
def sample(
    tokens_ptr, sound_ptr, logits_ptr, temperatures_ptr, top_k_ptr, top_p_ptr, min_p_ptr,
    numbers_ptr, values_ptr, ids_ptr, vocab, row_stride, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    start = logits_ptr + row * row_stride
    best = tl.full([BLOCK], -float("inf"), tl.float32)
    best_ids = tl.zeros([BLOCK], tl.int32)
    broken = tl.zeros([BLOCK], tl.int32)
    for base in tl.range(0, vocab, BLOCK, num_stages=AHEAD):
        x = _read(start, base, vocab, BLOCK)
        broken += (x != x).to(tl.int32)
        is_better = x > best
        best = tl.where(is_better, x, best)
        best_ids = tl.where(is_better, base + tl.arange(0, BLOCK), best_ids)
    top = tl.max(best, 0)
    token = tl.min(tl.where(best == top, best_ids, vocab - 1), 0)
    is_sound = (tl.sum(broken, 0) == 0) & (tl.abs(top) < float("inf"))
    tl.store(sound_ptr + row, is_sound.to(tl.int8))
    temperature = tl.load(temperatures_ptr + row)
    if is_sound & (temperature > 0.0):
        rate = 1.4426950408889634 / tl.maximum(temperature, 1e-20)
        k = tl.load(top_k_ptr + row)
        p = tl.maximum(tl.load(top_p_ptr + row), 1e-20)
        least = tl.load(min_p_ptr + row)
        number = tl.load(numbers_ptr + row)
        if (k > 0) | (p < 1.0):
            values = values_ptr + row * BLOCK
            ids = ids_ptr + row * BLOCK
            listed, total = _shortlist(start, vocab, top, rate, k, p, values, ids, BLOCK)
            count = listed + 0
            if listed == 0:
                count = vocab
                values = start
            token = _by_order(values, count, top, rate, k, p, least, number, total, BLOCK)
            if listed > 0:
                token = tl.load(ids + token)
        else:
            token = _by_id(start, vocab, top, rate, least, number, BLOCK)
    tl.store(tokens_ptr + row, token.to(tl.int64))
