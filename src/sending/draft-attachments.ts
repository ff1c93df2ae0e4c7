/** Files that go with an email: names and types that are safe in a header, base64 that is base64. */
import { isContentId, isMediaType } from '../mail/parameter.ts';
import type { Attachment, Complain } from './draft.ts';

export type AttachmentInput = {
  filename: string;
  content?: string | null | undefined;
  content_type?: string | null | undefined;
  content_id?: string | null | undefined;
  path?: unknown;
};

const ATTACHMENTS_MAX = 100;
export const FILENAME_MAX_BYTES = 255;

const CONTROL = /[\u0000-\u001f\u007f-\u009f]/;
export function readAttachments(
  attachments: readonly AttachmentInput[],
  complain: Complain,
): Attachment[] {
  if (attachments.length > ATTACHMENTS_MAX) {
    complain('attachments', `are more than ${ATTACHMENTS_MAX}`);
    return [];
  }
  return attachments.map((attachment, index) => {
    const field = `attachments[${index}]`;
    return {
      filename: readFilename(`${field}.filename`, attachment.filename, complain),
      contentType: readType(`${field}.content_type`, attachment, complain),
      contentId: readContentId(`${field}.content_id`, attachment.content_id, complain),
      content: readContent(field, attachment, complain),
    };
  });
}

function readFilename(field: string, filename: string, complain: Complain): string {
  const bytes = Buffer.byteLength(filename);
  if (bytes === 0 || bytes > FILENAME_MAX_BYTES) {
    complain(field, `must have 1-${FILENAME_MAX_BYTES} bytes`);
  }
  if (CONTROL.test(filename)) complain(field, 'has control characters');
  return filename;
}

function readType(field: string, attachment: AttachmentInput, complain: Complain): string {
  const type = attachment.content_type ?? TYPE_OF_EXTENSION.get(extensionOf(attachment.filename));
  if (type === undefined) return 'application/octet-stream';
  if (isMediaType(type)) return type;
  complain(field, 'is not a media type, like application/pdf');
  return type;
}

function extensionOf(filename: string): string {
  return filename.slice(filename.lastIndexOf('.') + 1).toLowerCase();
}

/** What people attach most; everything else is bytes unless the client says more. */
const TYPE_OF_EXTENSION = new Map([
  ['pdf', 'application/pdf'],
  ['png', 'image/png'],
  ['jpg', 'image/jpeg'],
  ['jpeg', 'image/jpeg'],
  ['gif', 'image/gif'],
  ['webp', 'image/webp'],
  ['svg', 'image/svg+xml'],
  ['csv', 'text/csv'],
  ['txt', 'text/plain'],
  ['html', 'text/html'],
  ['ics', 'text/calendar'],
  ['json', 'application/json'],
  ['zip', 'application/zip'],
]);

function readContentId(
  field: string,
  value: string | null | undefined,
  complain: Complain,
): string | null {
  if (value === null || value === undefined) return null;
  const contentId = value.replace(/^<(.*)>$/, '$1');
  if (!isContentId(contentId)) {
    complain(field, 'must be 1-200 printable ASCII characters without spaces and brackets');
  }
  return contentId;
}

function readContent(field: string, attachment: AttachmentInput, complain: Complain): Buffer {
  const { content, path } = attachment;
  if (path != null) {
    complain(`${field}.path`, 'is not available yet; send the bytes in content');
  } else if (typeof content !== 'string') {
    complain(`${field}.content`, 'is required');
  } else {
    const bytes = decodeBase64(content) ?? decodeBase64(content.replace(/\s+/g, ''));
    if (bytes !== null) return bytes;
    complain(`${field}.content`, 'is not base64');
  }
  return Buffer.alloc(0);
}

/** Node skips what is not base64: the number of bytes tells whether it had to. */
function decodeBase64(text: string): Buffer | null {
  const bytes = Buffer.from(text, 'base64');
  const digits = text.length - (/={1,2}$/.exec(text)?.[0].length ?? 0);
  return bytes.length === Math.floor((digits * 3) / 4) && digits % 4 !== 1 ? bytes : null;
}
