"""Solvers we learn from and compare with, each in a process of its own."""
