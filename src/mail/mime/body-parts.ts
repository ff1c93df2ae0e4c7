/**
 * Decides which parts of a message are shown as its text, and which are files. This follows JMAP (RFC 8621 §4.1.4),
 * whose rules mail programs share, and RFC 2387 for the root of a multipart/related.
 *
 * A text/plain or text/html part is a file in these cases; otherwise it is shown:
 * - its disposition is neither absent nor `inline` (RFC 2183 §2.8),
 * - its transfer encoding is unknown (RFC 2045 §6.4),
 * - it belongs to the root of a related,
 * - it has a file name. The name does not count for the whole message and the root of a related, where nothing else
 *   can be the text.
 *
 * JMAP also shows a file that comes first in a multipart/mixed. Here it is a file, because mail programs write that
 * when the author dropped a file at the beginning.
 */
import { readContentId, readDisposition } from './fields.ts';
import { type MimePart, fieldValue } from './reader.ts';

/** @param isOpen whether to search this multipart */
export function* bodyPartsOf(
  message: MimePart,
  isOpen: (multipart: MimePart) => boolean = () => true,
): Generator<MimePart> {
  yield* bodyPartsWithin(message, true, isOpen);
}

function* bodyPartsWithin(
  part: MimePart,
  isMessageOrRoot: boolean,
  isOpen: (multipart: MimePart) => boolean,
): Generator<MimePart> {
  const { type } = part.contentType;
  if (!type.startsWith('multipart/')) {
    if (isText(part) && !isFile(part, isMessageOrRoot)) yield part;
  } else if (isOpen(part)) {
    if (type === 'multipart/related') {
      const root = rootOf(part);
      if (root !== undefined) yield* bodyPartsWithin(root, true, isOpen);
      return;
    }
    for (const child of part.parts) yield* bodyPartsWithin(child, false, isOpen);
  }
}

function isText({ contentType: { type } }: MimePart): boolean {
  return type === 'text/html' || type === 'text/plain';
}

function isFile(part: MimePart, isMessageOrRoot: boolean): boolean {
  const disposition = dispositionOf(part);
  const isShown = disposition === '' || disposition === 'inline';
  return !isShown || part.encoding === 'unknown' || (!isMessageOrRoot && fileNameOf(part) !== null);
}

/** Returns the part that `start` names, else the first (RFC 2387 §3.2). */
function rootOf({ contentType, parts }: MimePart): MimePart | undefined {
  const start = readContentId(contentType.parameters.get('start') ?? '');
  const named = start === null ? undefined : parts.find((part) => contentIdOf(part) === start);
  return named ?? parts[0];
}

function dispositionOf({ fields }: MimePart): string {
  return readDisposition(fieldValue(fields, 'content-disposition') ?? '').type;
}

export function fileNameOf({ fields, contentType }: MimePart): string | null {
  const { parameters } = readDisposition(fieldValue(fields, 'content-disposition') ?? '');
  return parameters.get('filename') || contentType.parameters.get('name') || null;
}

/** Returns the id without its angle brackets. */
export function contentIdOf({ fields }: MimePart): string | null {
  return readContentId(fieldValue(fields, 'content-id') ?? '');
}
