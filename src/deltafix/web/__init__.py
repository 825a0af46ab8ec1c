"""One local page over a database: relations, live deltas, a graph, proofs, plan and profile.

Needs the extra `web` (starlette, uvicorn). The page is static HTML, CSS and JavaScript modules
as they lie in `static/`: there is no build step.
"""
