"""Mutations: what the statements of one query come to, as a change set."""
