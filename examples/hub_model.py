"""Publish a model directory on the Hugging Face Hub, and load one from there.

A model directory contains JSON, safetensors, ONNX and text, and nothing that is executed when it is
loaded. The page docs/hub.md explains it.
Usage: python hub_model.py upload MODEL REPOSITORY LICENCE
       python hub_model.py download REPOSITORY DIRECTORY [REVISION]
"""

import sys
from pathlib import Path

from huggingface_hub import HfApi, ModelCard, snapshot_download

import linkdist


def upload(directory, repository, licence):
    """Add the licence to the model card, and upload the directory as a private repository."""
    card = ModelCard.load(Path(directory, "README.md"))
    card.data.license = licence
    card.save(Path(directory, "README.md"))
    hub = HfApi()
    hub.create_repo(repository, private=True, exist_ok=True)
    return hub.upload_folder(repo_id=repository, folder_path=directory).oid


def download(repository, directory, revision=None):
    """Download a repository, and load it as a model."""
    # Files in the cache of huggingface_hub are symbolic links, which load_model refuses.
    snapshot_download(repository, revision=revision, local_dir=directory)
    return linkdist.load_model(directory)


if __name__ == "__main__":
    print({"upload": upload, "download": download}[sys.argv[1]](*sys.argv[2:]))
