"""What a job is asked to do: one file a stage, so that a new key of one stage makes no result of another stale.

A spec holds the slice of the configuration that its job depends on and nothing else. It travels as canonical JSON: in a
rule's `params:`, on the command line, and in the record that the job leaves.
"""

import argparse
from typing import Any, Self

from pydantic import ValidationError

from stcl.core.canonical import canonical
from stcl.core.settings import Settings


class Spec(Settings):
    """A spec of any stage."""

    def json_dict(self) -> dict[str, Any]:
        """The spec as plain JSON values, for records."""
        return self.model_dump(mode="json")

    def canonical(self) -> str:
        """Text that is equal exactly when the specs are equal."""
        return canonical(self.json_dict())

    @classmethod
    def parse(cls, text: str) -> Self:
        """The spec of a command line. argparse shows what is wrong with it."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
