"""Pictures, sound and tables: pipelines of data."""

import numpy as np

import workloads
from programs.registry import program


@program()
def image_pipeline(lib, size):
    """Crops, flips, sizes, colours and blurs of a batch of pictures, drawn for each."""
    jnp, lax = lib.numpy, lib.lax
    batch, n, out = size(16, 2), size(96, 12), size(64, 8)

    def augment(key, picture):
        k1, k2, k3, k4 = lib.random.split(key, 4)
        corner = lib.random.randint(k1, (2,), 0, n - out)
        crop = lax.dynamic_slice(picture, (corner[0], corner[1], 0), (out, out, 3))
        crop = jnp.where(lib.random.bernoulli(k2), crop[:, ::-1], crop)
        contrast = lib.random.uniform(k3, minval=0.8, maxval=1.2)
        brightness = lib.random.uniform(k4, minval=-0.1, maxval=0.1)
        mean = jnp.mean(crop, axis=(0, 1))
        return jnp.clip((crop - mean) * contrast + mean + brightness, 0.0, 1.0)

    def step(key, pictures):
        x = pictures.astype(jnp.float32) / 255.0
        x = lib.vmap(augment)(lib.random.split(key, batch), x)
        x = lib.image.resize(x, (batch, 2 * out, 2 * out, 3), "cubic")
        taps = jnp.exp(-0.5 * (jnp.arange(-2, 3) / 1.2) ** 2)
        blur = jnp.outer(taps, taps) / jnp.sum(taps) ** 2
        kernel = jnp.tile(blur[:, :, None, None], (1, 1, 1, 3))
        x = lax.conv_general_dilated(
            x, kernel, (2, 2), "SAME",
            dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=3,
        )  # fmt: skip
        return (x - jnp.array([0.485, 0.456, 0.406])) / jnp.array([0.229, 0.224, 0.225])

    pictures = workloads.rng().integers(0, 256, (batch, n, n, 3)).astype(np.uint8)
    return step, (lib.random.key(0), pictures)


@program()
def histogram_equalization(lib, size):
    """Levels of grey spread evenly: a histogram for each picture and a table looked up."""
    jnp = lib.numpy
    batch, n = size(8, 2), size(128, 8)

    def equalize(picture):
        counts = jnp.bincount(picture.ravel(), length=256)
        share = jnp.cumsum(counts) / picture.size
        return (255 * share).astype(jnp.uint8)[picture]

    r = workloads.rng()
    pictures = np.clip(r.normal(100, 20, (batch, n, n)), 0, 255).astype(np.uint8)
    return lib.vmap(equalize), (pictures,)


@program()
def median_filter(lib, size):
    """Each pixel the median of the nine around it, then edges by Sobel's filters."""
    jnp = lib.numpy
    n = size(160, 6)

    def step(picture):
        p = jnp.pad(picture, 1, mode="reflect")
        windows = [p[i : i + n, j : j + n] for i in range(3) for j in range(3)]
        smooth = jnp.median(jnp.stack(windows), axis=0)
        sobel = jnp.array([[-1.0, 0.0, 1.0], [-2.0, 0.0, 2.0], [-1.0, 0.0, 1.0]])
        across = lib.scipy.signal.convolve2d(smooth, sobel, mode="same")
        down = lib.scipy.signal.convolve2d(smooth, sobel.T, mode="same")
        return smooth, jnp.hypot(across, down)

    return step, (workloads.f32(n, n),)


@program()
def image_registration(lib, size):
    """The gradient of the misfit of a picture that is turned and moved, by interpolation."""
    jnp = lib.numpy
    n = size(192, 8)

    def loss(p, moving, fixed):
        line = jnp.linspace(-1.0, 1.0, n)
        y, x = jnp.meshgrid(line, line, indexing="ij")
        u = jnp.cos(p[0]) * y - jnp.sin(p[0]) * x + p[1]
        v = jnp.sin(p[0]) * y + jnp.cos(p[0]) * x + p[2]
        places = [(u + 1) * (n - 1) / 2, (v + 1) * (n - 1) / 2]
        moved = lib.scipy.ndimage.map_coordinates(moving, places, order=1, mode="nearest")
        return jnp.mean((moved - fixed) ** 2)

    wave = lambda phase: np.sin(np.add.outer(np.arange(n) / 9 + phase, np.arange(n) / 7))
    pictures = wave(0.0).astype(np.float32), wave(0.3).astype(np.float32)
    return lib.value_and_grad(loss), (np.array([0.1, 0.05, -0.02], np.float32), *pictures)


@program()
def k_means(lib, size):
    """Ten rounds of Lloyd's algorithm: nearest centres, and means by segments."""
    jnp, lax = lib.numpy, lib.lax
    n, d, k, rounds = size(8000, 20), size(16, 2), size(32, 3), size(10, 2)

    def step(x, centers):
        def improve(centers, _):
            distance = jnp.sum(x**2, 1)[:, None] - 2 * x @ centers.T + jnp.sum(centers**2, 1)
            nearest = jnp.argmin(distance, axis=1)
            totals = lib.ops.segment_sum(x, nearest, num_segments=k)
            counts = lib.ops.segment_sum(jnp.ones(n), nearest, num_segments=k)
            new = jnp.where(counts[:, None] > 0, totals / jnp.maximum(counts, 1)[:, None], centers)
            return new, jnp.mean(jnp.min(distance, axis=1))

        return lax.scan(improve, centers, None, length=rounds)

    r = workloads.rng()
    x = (4 * r.normal(size=(k, d))[np.arange(n) % k] + r.normal(size=(n, d))).astype(np.float32)
    return step, (x, x[:k])


@program()
def nearest_neighbours(lib, size):
    """The votes of the ten nearest of many points, by `top_k` of distances."""
    jnp, lax = lib.numpy, lib.lax
    n, queries, d, k = size(4000, 30), size(200, 4), size(32, 3), size(10, 3)

    def step(x, labels, q):
        distance = jnp.sum((q**2), -1)[:, None] - 2 * q @ x.T + jnp.sum(x**2, -1)
        near, index = lax.top_k(-distance, k)
        weights = lib.nn.softmax(near, axis=-1)
        votes = jnp.sum(lib.nn.one_hot(labels[index], 5) * weights[..., None], axis=1)
        return jnp.argmax(votes, axis=-1), votes

    labels = workloads.rng().integers(0, 5, n).astype(np.int32)
    return step, (workloads.f32(n, d), labels, workloads.f32(queries, d, seed=1))


@program()
def top_k_by_sort(lib, size):
    """The best of each row by a sort: their values, places and shares; sampling by nucleus."""
    jnp = lib.numpy
    rows, words, k = size(16, 2), size(8192, 12), size(64, 3)

    def step(key, logits):
        order = jnp.argsort(logits, axis=-1, descending=True)
        ranked = jnp.take_along_axis(logits, order, axis=-1)
        p = lib.nn.softmax(ranked, axis=-1)
        kept = jnp.cumsum(p, axis=-1) - p < 0.9
        drawn = lib.random.categorical(key, jnp.where(kept, ranked, -jnp.inf))
        token = jnp.take_along_axis(order, drawn[:, None], axis=-1)
        return ranked[:, :k], order[:, :k], token

    return step, (lib.random.key(0), 3 * workloads.f32(rows, words))


@program()
def group_statistics(lib, size):
    """A table grouped by its keys: counts, means, spreads, extremes, and ranks inside groups."""
    jnp = lib.numpy
    n, groups = size(20000, 20), size(500, 4)

    def step(keys, values):
        total = lambda x: lib.ops.segment_sum(x, keys, num_segments=groups)
        count = jnp.maximum(total(jnp.ones(n)), 1.0)
        mean = total(values) / count
        spread = jnp.sqrt(total((values - mean[keys]) ** 2) / count)
        least = lib.ops.segment_min(values, keys, num_segments=groups)
        most = lib.ops.segment_max(values, keys, num_segments=groups)
        order = jnp.lexsort((values, keys))
        first = jnp.searchsorted(keys[order], jnp.arange(groups))
        rank = jnp.zeros(n, jnp.int32).at[order].set(jnp.arange(n) - first[keys[order]])
        return mean, spread, jnp.where(jnp.isfinite(least), most - least, 0.0), rank

    keys = workloads.rng().integers(0, groups, n).astype(np.int32)
    return step, (keys, workloads.f32(n))


@program()
def mel_spectrogram(lib, size):
    """The logarithm of the energy of sound in bands: windows, transforms, a matrix."""
    jnp = lib.numpy
    n, window, hop, bands = size(80000, 200), size(512, 32), size(160, 10), size(64, 5)

    def step(sound, bank):
        start = hop * jnp.arange((n - window) // hop + 1)
        frames = sound[start[:, None] + jnp.arange(window)]
        power = jnp.abs(jnp.fft.rfft(frames * jnp.hanning(window))) ** 2
        mel = jnp.log(power @ bank + 1e-6)
        return (mel - mel.mean(0)) / (mel.std(0) + 1e-5)

    bank = np.abs(workloads.f32(window // 2 + 1, bands, seed=1)) ** 4
    return step, (workloads.f32(n), bank)


@program()
def echo_and_filter(lib, size):
    """Sound through a long echo by `fftconvolve` and a resonant filter by `scan`."""
    jnp, lax = lib.numpy, lib.lax
    voices, n, taps = size(8, 2), size(4000, 30), size(1000, 7)

    def step(sound, echo):
        wet = lib.scipy.signal.fftconvolve(sound, echo[None], mode="full")[:, :n]

        def resonate(state, x):
            y1, y2 = state
            y = x + 1.8 * y1 - 0.9 * y2
            return (y, y1), y

        zero = jnp.zeros(voices)
        _, y = lax.scan(resonate, (zero, zero), wet.T)
        return jnp.tanh(0.05 * y.T)

    decay = np.exp(-np.arange(taps) / (taps / 4)).astype(np.float32)
    return step, (workloads.f32(voices, n), workloads.f32(taps, seed=1) * decay)
