"""Limits on what untrusted files may make this program read, store or compute: one table, shown on the security page.

A limit is far beyond honest use, and what lies beyond it is refused before memory is taken for it.
"""

from __future__ import annotations

KB, MB, GB = 2**10, 2**20, 2**30

IMAGE_FILE_BYTES = 512 * MB
IMAGE_PIXELS = 178_000_000  # that a file declares; about Pillow's own limit, but not subject to its global setting
JPEG_PIXELS = 1_000_000_000  # that a JPEG declares: it is decoded at reduced scale
IMAGE_SIDE = 100_000  # pixels of either side, since every row costs memory
JPEG_SCANS = 100  # of a progressive JPEG; encoders write about ten
JPEG_SCANNED_PIXELS = 4_000_000_000  # scans times pixels
DECODED_BYTES = 512 * MB  # that an image takes while it is decoded, at the scale it is decoded at
DECODING_MEMORY = 640 * MB  # that a decoding process may take beyond its start, by the kernel's limit
DECODING_SECONDS = 10  # of processor time for one image, by the kernel's limit
QUICK_MEMORY = 192 * MB  # the same where images are decoded beside each other for clients; what needs more is alone
QUICK_SECONDS = 1
REQUEST_SECONDS = 8  # of processor time to decode all images of a request, and one for each megabyte of it
DECODING_DEADLINE = 60  # seconds by the clock after which a decoding process is killed and replaced
CANVAS_SIDE = 4096  # pixels of a source's input

LIST_LINE = 64 * KB  # characters of a line of a CSV or JSONL list
SPLIT_FILE_BYTES = 256 * MB  # of a JSON file that lists images
PACKED_MEMBERS = 2_000_000  # files and folders of a zip or tar archive of images
PACKED_INDEX_BYTES = 256 * MB  # of their names, or of the directory of a zip
PACKED_NAME = 4096  # characters of one name
PACKED_BYTES = 1024 * GB  # that an archive unpacks to; one image of it has the limits of an image
PACKED_RATIO = 100  # times its own size, and the bytes of one image besides
ARCHIVE_COLUMN_BYTES = 2 * GB  # of labels, groups or names in a response file, which are held whole
ARCHIVE_IDENTITY_BYTES = 1 * MB  # of what a response file says of its source
RESPONSE_WIDTH = 16_384  # coordinates of one reading of a response; the scatter then has 2 GB
ENSEMBLE_WIDTH = 65_536  # coordinates of all readings of a response together
RESPONSE_SIZE = 1e60  # of a number in a response: its fourth power, in products of sums, must stay within float64

BATCH = 65_536  # images of a batch: 10 GB of pixels at a side of 224
PROCESSES = 1_024  # that decode images or share a port, and threads of a network
EPOCHS = 100_000  # of a refinement
SERVICE_NUMBER = 1_000_000  # of a service's option: images, megabytes, connections or seconds
CLUSTER_ACTORS = 100_000
CLUSTER_BLOCK = 1_000_000  # images of a block that one process reads at once
PARQUET_GROUP_BYTES = 4 * GB  # of a row group in a Parquet file, as declared
SHARD_SIDECAR_BYTES = 1 * MB  # of the label, text or JSON beside an image in a WebDataset shard

READINGS = 64  # of one response
NETWORKS = 8  # of one source
READING_NAME = 40  # characters

MODEL_FILE_BYTES = 4 * GB  # of one file of a model
MODEL_CONFIG_BYTES = 16 * MB
MODEL_CLASSES = 100_000  # a fit of two examples each, of width 32, takes minutes and less than 4 GB
RECEIPT_BYTES = 1 * GB  # of an unlearning receipt: about 100 for each image
PARTIES = 1_000  # of one sum
AGREEMENT_BYTES = 64 * MB  # of what parties agree on, of a key, or of a confirmation
SHARES = 1_000_000  # of the same data, one file of statistics each
TOGETHER_IMAGES = 50_000  # images answered together: 1 GB of responses at width 5,256
RESERVOIR_CAPACITY = 10_000_000  # individual responses that a model may keep; memory is allocated as they come
SEED = 2**63 - 1  # the largest seed, and minus it the least

BANK_FILE_BYTES = 64 * MB
BANK_SENTENCES = 1_000_000
SENTENCE_LENGTH = 10_000  # characters
ANSWER_BYTES = 4 * MB  # of an answer of a language model

ENDPOINT_FILE_BYTES = 1 * MB  # of the TOML file of an endpoint
ENDPOINT_TEXT = 4096  # characters of one of its texts
ENDPOINT_HEADERS = 50
ENDPOINT_DEPTH = 32  # of a body that is sent, and steps to the vector in an answer
ENDPOINT_IMAGES = 256  # in one request
ENDPOINT_CONCURRENCY = 256  # requests at once
ENDPOINT_ANSWER_BYTES = 4 * MB  # of one answer
BATCH_LINE_BYTES = 16 * MB  # of a line of batched answers

WEIGHT_FILE_BYTES = 1 * GB  # of torch's old format; the largest embedded file has 25 million bytes
WEIGHT_PICKLE_BYTES = 16 * MB  # of the part before the numbers; the embedded files have 62,000 there
PICKLE_INSTRUCTIONS = 1_000_000  # the embedded weight files have about 12,000, CIFAR-100 about 200,000
ADDED_FILE_BYTES = 1 * MB  # of the record of a network that was added
ONNX_FILE_BYTES = 2 * GB - 1  # of one protobuf message
HUB_SMALL_FILE_BYTES = 16 * MB  # of a file of a hub's repository beside the weights
HUB_LIST_BYTES = 16 * MB  # of what a hub says of a repository
HUB_WEIGHT_FILES = 64  # beside one ONNX file
TOKENIZER_BYTES = 128 * MB  # of an image-text model; SigLIP's has 34 million

WEB_RUNTIME_BYTES = 256 * MB  # of one file of the engine of an exported page
WEB_PACKAGE_BYTES = 1 * MB  # of what its package says of itself

TAUGHT_LABEL = 200  # characters of a label that a client teaches a service
STUDIO_CLASSES = 1_000
STUDIO_PHOTOS = 20_000
STUDIO_UNPACKED_BYTES = 4 * GB  # of the images of one archive that a page sends
STUDIO_MODEL_BYTES = 1 * GB  # that the archive of a model which a page sends unpacks to

PLAN_BYTES = 1 * MB  # of a plan of the bench
RESULT_BYTES = 16 * MB  # of one result of the bench
