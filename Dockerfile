# docker build -t deltafix .
# docker run --rm --volume "$PWD:/work" deltafix run access.dl -F facts -D -
FROM python:3.13-slim AS build
WORKDIR /source
COPY . .
# The wheel brings the kernel compiled where it can (`make wheel` does the same); elsewhere the first
# run compiles it.
RUN python -m pip install --no-cache-dir . \
    && if [ "$(uname -m)" = x86_64 ]; then \
         python scripts/objects.py build/objects x86-64-v2 \
         && python scripts/objects.py build/objects x86-64-v3 \
         && export DELTAFIX_OBJECTS=build/objects; \
       fi \
    && python -m pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.13-slim
# Those of pyproject.toml, with commas between: docker build --build-arg EXTRAS=sql,postgres
ARG EXTRAS=sql,yaml,conditions,web
COPY --from=build /wheels /wheels
RUN python -m pip install --no-cache-dir "$(echo /wheels/*.whl)[$EXTRAS]" \
    && useradd --create-home --uid 1000 deltafix
USER 1000
WORKDIR /work
ENTRYPOINT ["deltafix"]
CMD ["--help"]
