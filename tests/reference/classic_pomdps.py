"""The problems in tests/pomdp_files as numpy arrays, from descriptions and not from the files.

Each is T[a, s, s'], O[a, s', z], R[a, s, s', z] (rewards), the first belief and the discount.
"""

import numpy as np


def tiger():
    half = np.full((2, 2), 0.5)
    T = np.stack([np.eye(2), half, half])
    O = np.stack([np.array([[0.85, 0.15], [0.15, 0.85]]), half, half])
    by_state = np.array([[-1.0, -1.0], [-100.0, 10.0], [10.0, -100.0]])
    R = np.broadcast_to(by_state[:, :, None, None], (3, 2, 2, 2))
    return T, O, R, half[0], 0.95


def corridor():
    T, O, R = np.zeros((2, 4, 4)), np.zeros((2, 4, 2)), np.zeros((2, 4, 4, 2))
    for a, follows in enumerate([(0, 0, 3), (1, 3, 2)]):  # west, east
        T[a, [0, 1, 2], follows] = 1.0
        T[a, 3, :3] = [0.3333333333333333, 0.3333333333333333, 0.3333333333333334]
    O[:, :3, 0] = O[:, 3, 1] = 1.0
    R[:, :, 3] = 1.0
    return T, O, R, np.full(4, 0.25), 0.75


def cheese():
    places = {(0, c): c for c in range(5)} | {(1, 0): 5, (1, 2): 6, (1, 4): 7}
    places |= {(2, 0): 8, (2, 4): 9, (2, 2): 10}
    T, O, R = np.zeros((4, 11, 11)), np.zeros((4, 11, 7)), np.zeros((4, 11, 11, 7))
    start = np.append(np.full(10, 1 / 10), 0.0)
    for a, (down, right) in enumerate([(-1, 0), (1, 0), (0, 1), (0, -1)]):
        for (row, column), s in places.items():
            T[a, s, places.get((row + down, column + right), s)] = 1.0
    T[:, 10] = start
    O[:, np.arange(11), [0, 1, 2, 1, 3, 4, 4, 4, 5, 5, 6]] = 1.0
    R[:, :, 10] = 1.0
    return T, O, R, start, 0.95


def grid():
    places = [(r, c) for r in range(3) for c in range(4) if (r, c) != (1, 1)]
    step = {"n": (-1, 0), "s": (1, 0), "e": (0, 1), "w": (0, -1)}
    T, O = np.zeros((4, 11, 11)), np.zeros((4, 11, 6))
    R = np.full((4, 11, 11, 6), -0.04)
    start = np.where(np.isin(np.arange(11), [3, 6]), 0.0, 1 / 9)
    for a, way in enumerate("nsew"):
        for share, ways in ((0.8, way), (0.1, "ew" if way in "ns" else "ns")):
            for (down, right), (s, (r, c)) in (
                (step[w], p) for w in ways for p in enumerate(places)
            ):
                there = (r + down, c + right)
                T[a, s, places.index(there) if there in places else s] += share
    T = np.round(T, 1)  # 0.8 + 0.1 is a last bit away from 0.9
    T[:, [3, 6]] = start
    O[:, np.arange(11), [0, 2, 2, 4, 3, 0, 5, 0, 2, 2, 1]] = 1.0
    R[:, 3], R[:, 6] = 1.0, -1.0
    return T, O, R, start, 0.95


def hall():
    T, start = np.zeros((3, 7, 7)), np.append(np.full(6, 1 / 6), 0.0)
    T[0] = np.eye(7)
    for s, ahead in enumerate([1, 2, 6, 3, 3, 4]):
        T[1, s, s] += 0.2
        T[1, s, ahead] += 0.8
        T[2, s, s], T[2, s, (s + 3) % 6] = 0.1, 0.9
    T[:, 6] = start
    O = np.broadcast_to([0.9, 0.05, 0.05], (3, 7, 3)).copy()
    O[:, 3], O[:, 6], O[0, 2] = [0.05, 0.95, 0.0], [0.0, 0.0, 1.0], [0.5, 0.0, 0.5]
    R = np.zeros((3, 7, 7, 3))
    R[:, :, 6], R[1, 3, 3, 1] = 1.0, -0.25
    return T, O, R, start, 0.95


def repair():
    T = np.array([[[0.8, 0.15, 0.05], [0.0, 0.7, 0.3], [0.0, 0.0, 1.0]], [[1.0, 0, 0]] * 3])
    O = np.array([[[0.95, 0.05], [0.6, 0.4], [0.1, 0.9]], [[1.0, 0.0]] * 3])
    cost = np.full((2, 3, 3, 2), 4.0)
    cost[0, 0] = [[0.0, 1.0], [0.5, 2.0], [3.0, 4.5]]
    cost[0, 1] = [[0.25, 1.25], [0.75, 2.25], [3.5, 5.0]]
    cost[0, 2], cost[1, 2] = [6.0, 7.0], 12.5
    return T, O, -cost, np.array([0.7, 0.2, 0.1]), 0.9


BY_FILE = {
    "tiger": tiger,
    "1d": corridor,
    "cheese": cheese,
    "4x3": grid,
    "hall": hall,
    "repair": repair,
}


def expected_reward(T, O, R):
    """r[s, a] = sum over s' and z of T O R, by plain loops."""
    A, S, _, Z = R.shape
    r = np.zeros((S, A))
    for a, s, s1, z in np.ndindex(A, S, S, Z):
        r[s, a] += T[a, s, s1] * O[a, s1, z] * R[a, s, s1, z]
    return r
