"""What a fit says about its own search: cycles, several minima, too few steps, no values."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq

import sourcewise as sw
from estimation.problems import PROBLEMS
