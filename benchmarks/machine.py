"""What was measured on: versions and processor, and nothing that names the machine or its owner."""

import datetime
import importlib.metadata
import os
import platform
from pathlib import Path

import jax


def facts() -> dict[str, str]:
    """Facts for the record."""
    versions = {
        name: importlib.metadata.version(name) for name in ("jax", "jaxlib", "numpy", "scipy")
    }
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "processor": f"{_processor()}, {_cores()} cores",
        "device": jax.devices()[0].device_kind,
        "Python": platform.python_version(),
        **versions,
    }


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
