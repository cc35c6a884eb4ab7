"""Requests, responses and errors as they cross the network. Shared by server and client; pure."""
