"""Tests that an implementation of one of our interfaces must pass: subclass a suite in a test module of your own."""
