"""Published figures as printed: strings, since their digits say how exactly they can be checked."""

from typing import Any

# Rust (1987), Tables IX (90 bins) and X (175 bins): sample of groups -> discount -> entries.
# RC, theta11 (`cost`), theta3 (`increment`), log-likelihood; standard errors in the second place.
RUST = {
    90: {
        (1, 2, 3): {
            0.9999: {
                "RC": ("11.7270", "2.602"),
                "cost": ("4.8259", "1.792"),
                "increment[0]": ("0.3010", "0.0074"),
                "increment[1]": ("0.6884", "0.0075"),
                "llf": ("-2708.366", None),
            },
            0.0: {
                "RC": ("8.2985", "1.0417"),
                "cost": ("109.9031", "26.163"),
                "increment[0]": ("0.3010", "0.0074"),
                "increment[1]": ("0.6884", "0.0075"),
                "llf": ("-2710.746", None),
            },
        },
        (4,): {
            0.9999: {
                "RC": ("10.0750", "1.582"),
                "cost": ("2.2930", "0.639"),
                "increment[0]": ("0.3919", "0.0075"),
                "increment[1]": ("0.5953", "0.0075"),
                "llf": ("-3304.155", None),
            },
            0.0: {
                "RC": ("7.6358", "0.7197"),
                "cost": ("71.5133", "13.778"),
                "increment[0]": ("0.3919", "0.0075"),
                "increment[1]": ("0.5953", "0.0075"),
                "llf": ("-3306.028", None),
            },
        },
        (1, 2, 3, 4): {
            0.9999: {
                "RC": ("9.7558", "1.227"),
                "cost": ("2.6275", "0.618"),
                "increment[0]": ("0.3489", "0.0052"),
                "increment[1]": ("0.6394", "0.0053"),
                "llf": ("-6055.250", None),
            },
            0.0: {
                "RC": ("7.3055", "0.5067"),
                "cost": ("70.2769", "10.750"),
                "increment[0]": ("0.3489", "0.0052"),
                "increment[1]": ("0.6394", "0.0053"),
                "llf": ("-6061.641", None),
            },
        },
    },
    175: {
        (1, 2, 3): {
            0.9999: {
                "RC": ("11.7257", "2.597"),
                "cost": ("2.4569", "0.9122"),
                "increment[0]": ("0.0937", "0.0047"),
                "increment[1]": ("0.4475", "0.0080"),
                "increment[2]": ("0.4459", "0.0080"),
                "increment[3]": ("0.0127", "0.0018"),
                "llf": ("-3993.991", None),
            },
            0.0: {
                "RC": ("8.2969", "1.0477"),
                "cost": ("56.1657", "13.4205"),
                "increment[0]": ("0.0937", "0.0047"),
                "increment[1]": ("0.4475", "0.0080"),
                "increment[2]": ("0.4459", "0.0080"),
                "increment[3]": ("0.0127", "0.0018"),
                "llf": ("-3996.353", None),
            },
        },
        (4,): {
            0.9999: {
                "RC": ("10.896", "1.581"),
                "cost": ("1.1732", "0.327"),
                "increment[0]": ("0.1191", "0.0050"),
                "increment[1]": ("0.5762", "0.0075"),
                "increment[2]": ("0.2868", "0.0069"),
                "increment[3]": ("0.0158", "0.0019"),
                "llf": ("-4495.135", None),
            },
            0.0: {
                "RC": ("7.6423", "0.7204"),
                "cost": ("36.6692", "7.0675"),
                "increment[0]": ("0.1191", "0.0050"),
                "increment[1]": ("0.5762", "0.0075"),
                "increment[2]": ("0.2868", "0.0069"),
                "increment[3]": ("0.0158", "0.0019"),
                "llf": ("-4496.997", None),
            },
        },
        (1, 2, 3, 4): {
            0.9999: {
                "RC": ("9.7687", "1.226"),
                "cost": ("1.3428", "0.315"),
                "increment[0]": ("0.1071", "0.0034"),
                "increment[1]": ("0.5152", "0.0055"),
                "increment[2]": ("0.3621", "0.0053"),
                "increment[3]": ("0.0143", "0.0013"),
                "llf": ("-8607.889", None),
            },
            0.0: {
                "RC": ("7.3113", "0.5073"),
                "cost": ("36.0175", "5.5145"),
                "increment[0]": ("0.1071", "0.0034"),
                "increment[1]": ("0.5152", "0.0055"),
                "increment[2]": ("0.3621", "0.0053"),
                "increment[3]": ("0.0143", "0.0013"),
                "llf": ("-8614.238", None),
            },
        },
    },
}

# Chang, Garcia, Wang and Sun: Table III, group 4, bootstrap standard errors in the second place.
TABLE_3 = {
    "RC": ("9.738", "1.052"),
    "cost[good]": ("0.3", "0.3"),
    "cost[bad]": ("1.3", "0.2"),
    "stay[good]": ("0.949", "0.004"),
    "stay[bad]": ("0.988", "0.002"),
    "increment[good, 0]": ("0.039", "0.005"),
    "increment[good, 1]": ("0.335", "0.018"),
    "increment[good, 2]": ("0.588", "0.018"),
    "increment[bad, 0]": ("0.182", "0.008"),
    "increment[bad, 1]": ("0.757", "0.008"),
    "increment[bad, 2]": ("0.061", "0.006"),
}
TABLE_3_LLF = -3819.0
TABLE_4_LLF = -4495.0
TABLE_4 = {
    "RC": 10.90,
    "cost": 1.2,
    "increment[0]": 0.119,
    "increment[1]": 0.576,
    "increment[2]": 0.287,
    "increment[3]": 0.016,
}
# Dollars of one replacement, Rust's Table III, group 4; the paper's figures that follow from it.
REPLACEMENT_DOLLARS = 7513.0
TABLE_3_DOLLARS = {"good": 0.231, "bad": 1.00}

# Table I: the truth of the synthetic data, and what the paper estimated from them.
TABLE_1 = {
    "RC": ("9.243", "9.231", "9.230"),
    "cost[good]": ("0.2", "0.2", "0.2"),
    "cost[bad]": ("1.2", "1.2", "1.2"),
    "stay[good]": ("0.949", "0.950", "0.950"),
    "stay[bad]": ("0.988", "0.987", "0.987"),
    "increment[good, 0]": ("0.039", "0.038", "0.038"),
    "increment[good, 1]": ("0.333", "0.327", "0.327"),
    "increment[good, 2]": ("0.590", "0.596", "0.596"),
    "increment[bad, 0]": ("0.181", "0.181", "0.181"),
    "increment[bad, 1]": ("0.757", "0.754", "0.754"),
    "increment[bad, 2]": ("0.061", "0.064", "0.064"),
}
TABLE_1_LLF = {"x0 known": -262_973.0, "x0 unknown": -262_814.0}
TABLE_2 = {
    "RC": "9.811",
    "cost": "1.1",
    "increment[0]": "0.128",
    "increment[1]": "0.601",
    "increment[2]": "0.257",
    "increment[3]": "0.015",
}
TABLE_2_LLF = -301_750.0
TABLE_2_LOSS = 12.9  # per cent, as the paper computes it


def agreement(ours: float, printed: str) -> str:
    """How far our figure is from the printed one: "all" digits, the "last" one by one, or not."""
    decimals = len(printed.partition(".")[2])
    if f"{ours:.{decimals}f}" == printed:
        return "all"
    return "last" if abs(ours - float(printed)) < 1.05 * 10**-decimals else "differ"


def published_theta(largest_rounding: float = 0.0005) -> dict[str, Any]:
    """Table III as a point. Its printed increments in bad condition leave nothing for 3.

    That would make three increments of the data impossible; rounding leaves room for up to
    `largest_rounding`, which is taken from the most frequent one.
    """
    value = {name: float(printed) for name, (printed, _) in TABLE_3.items()}
    rows = []
    for s in ("good", "bad"):
        row = [value[f"increment[{s}, {k}]"] for k in range(3)]
        rest = 1.0 - sum(row)
        if rest < largest_rounding:
            row[1] -= largest_rounding - rest
        rows.append([*row, 1.0 - sum(row)])
    return {
        "RC": value["RC"],
        "cost": [value["cost[good]"], value["cost[bad]"]],
        "stay": [value["stay[good]"], value["stay[bad]"]],
        "increment": rows,
    }
