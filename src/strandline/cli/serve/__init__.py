"""Commands that serve a store and manage its tokens, routers, contexts and audit log."""
