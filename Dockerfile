# weft in an image: docker build --tag weft .
# With NVIDIA's CUDA: docker build --tag weft-cuda --build-arg EXTRAS='[cuda13]' .
# docs/install.md says how to run programs in it.

ARG PYTHON=3.11.11

# Where the compiled module is built. The compiler does not go into the image.
FROM python:${PYTHON}-slim-bookworm AS build
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
RUN python -m venv /opt/weft
WORKDIR /source
# First the dependencies: they change less often than weft, and Docker keeps the layer.
COPY requirements/run.txt requirements/constraints.txt requirements/
RUN /opt/weft/bin/python -m pip install --no-cache-dir --requirement requirements/run.txt
COPY pyproject.toml README.md LICENSE ./
COPY weft/ weft/
ARG EXTRAS=""
RUN /opt/weft/bin/python -m pip install --no-cache-dir \
    --constraint requirements/constraints.txt ".${EXTRAS}"

FROM python:${PYTHON}-slim-bookworm
COPY --from=build /opt/weft /opt/weft
# The two of NVIDIA's are for its container toolkit.
ENV PATH=/opt/weft/bin:${PATH} \
    XDG_CACHE_HOME=/cache \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility
RUN useradd --create-home --uid 1000 weft && install --directory --owner=weft /cache
USER weft
WORKDIR /programs
CMD ["python", "-c", "import weft; print(weft.__version__, weft.devices())"]
