"""References: arrays that can be written, and their ways through transformations.

A reference is a box over an array that never changes. Where Python runs a function once, under
`jvp`, `vmap` or nothing at all, the box is read and written at once. Where a function is recorded,
a reference from outside is an input of the jaxpr, and the recorded reads and writes are turned into
values that go in and come out before any other transformation sees the jaxpr (`discharge`).
"""
