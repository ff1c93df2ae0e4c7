/**
 * `/emails/:id/attachments` of the root mount: the files of an email. Each has a link that downloads it for an hour
 * without a key, as Resend's clients expect. The link has a token of its own (mail/links/share-link.ts), which
 * gives access to these files only.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { hash } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { isRefusal, type Refusal, refuseFields, noSuch } from '../../core/refusals.ts';
import { type AttachedFile, inspectMessage } from '../../emails/inspection/inspect.ts';
import { makeShareToken, readShareToken } from '../../mail/links/share-link.ts';
import { UUID_BYTES, uuidText } from '../../mail/links/uuid.ts';
import { callerOf } from '../../http/access.ts';
import { readInTurn } from '../../emails/inspection/http-content-reads.ts';
import { refuse } from '../../http/errors.ts';
import { messageOf, sendFile } from '../../emails/inspection/routes.ts';
import { CONTENT_GONE, refOf } from '../../emails/routes.ts';
import type { App, HttpServices } from '../../http/services.ts';
import { HIDDEN, idInPath, pageQuery } from './wire/shared-schemas.ts';

/** Purpose of the key that signs the tokens. */
const KEY_PURPOSE = 'attachment links';
const LINK_VALID_S = 3_600;

const LINK_EXPIRED: Refusal = {
  refused: 'not_found',
  message: 'This link has expired, or the email was removed; ask the API for another one.',
};

export function registerResendAttachments(app: App, services: HttpServices): void {
  app.get('/emails/:id/attachments', {
    config: { access: 'any_key', withinDomain: true },
    schema: { ...HIDDEN, params: idInPath, querystring: pageQuery },
    handler: async (request, reply) => {
      const files = await readAttachments(services, request, reply);
      if (isRefusal(files)) return refuse(reply, files);
      const page = pageOfAttachments(files, request.query);
      return isRefusal(page) ? refuse(reply, page) : page;
    },
  });

  app.get('/emails/:id/attachments/:attachment_id', {
    config: { access: 'any_key', withinDomain: true },
    schema: { ...HIDDEN, params: idInPath.extend({ attachment_id: z.string() }) },
    handler: async (request, reply) => {
      const files = await readAttachments(services, request, reply);
      if (isRefusal(files)) return refuse(reply, files);
      const file = files.find(({ id }) => id === request.params.attachment_id);
      return file ? { object: 'attachment', ...file } : refuse(reply, noSuch('attachment'));
    },
  });

  registerDownload(app, services);
}

type ResendAttachment = ReturnType<typeof attachmentToResend>;

function readAttachments(
  services: HttpServices,
  request: FastifyRequest<{ Params: { id: string } }>,
  reply: FastifyReply,
): Promise<ResendAttachment[] | Refusal> {
  const { projectId, environment } = callerOf(request);
  return readInTurn(projectId, reply, async () => {
    const found = await messageOf(services, refOf(request));
    if (found === null) return noSuch('email');
    if (found.bytes === null) return CONTENT_GONE;
    await nextTurn();
    const { id: emailId } = found.email;
    const expiresAtS = Math.floor(services.world.now() / 1000 + LINK_VALID_S);
    const shared = { projectId, environment, emailId, expiresAtS };
    const token = makeShareToken(shared, services.secrets.derive(KEY_PURPOSE));
    const base = `${services.config.publicUrl ?? services.localUrl}/s/${token}/attachments`;
    return inspectMessage(found.bytes).attachments.map((file) =>
      attachmentToResend(file, { emailId, base, expiresAt: new Date(expiresAtS * 1000) }),
    );
  });
}

function attachmentToResend(
  { number, filename, contentType, contentId, content }: AttachedFile,
  { emailId, base, expiresAt }: { emailId: string; base: string; expiresAt: Date },
) {
  return {
    id: attachmentId(emailId, number),
    filename,
    size: content.length,
    content_type: contentType,
    content_disposition: contentId === null ? ('attachment' as const) : ('inline' as const),
    ...(contentId !== null && { content_id: contentId }),
    download_url: `${base}/${number}`,
    expires_at: expiresAt.toISOString(),
  };
}

/** Returns a UUID, because some clients decode one. It is the same for the same file. */
function attachmentId(emailId: string, number: number): string {
  return uuidText(hash('sha256', `${emailId} ${number}`, 'buffer').subarray(0, UUID_BYTES));
}

function pageOfAttachments(
  files: readonly ResendAttachment[],
  { limit, after, before }: z.output<typeof pageQuery>,
): { object: 'list'; has_more: boolean; data: readonly ResendAttachment[] } | Refusal {
  const cursor = after ?? before;
  const cursorIndex = files.findIndex(({ id }) => id === cursor);
  if (cursor !== undefined && cursorIndex === -1) {
    const field = after === undefined ? 'before' : 'after';
    return refuseFields([{ field, message: 'must be an id from this list' }]);
  }
  const candidates =
    after === undefined
      ? files.slice(0, before === undefined ? undefined : cursorIndex)
      : files.slice(cursorIndex + 1);
  const data = before === undefined ? candidates.slice(0, limit) : candidates.slice(-limit);
  return { object: 'list', has_more: data.length < candidates.length, data };
}

function registerDownload(app: App, services: HttpServices): void {
  const { secrets, world } = services;
  app.get('/s/:token/attachments/:number', {
    config: { access: 'public', isForRecipients: true },
    schema: { ...HIDDEN, params: z.object({ token: z.string(), number: z.string() }) },
    handler: async (request, reply) => {
      const { token, number } = request.params;
      const shared = readShareToken(token, secrets.deriveAll(KEY_PURPOSE));
      if (shared === null || shared.expiresAtS * 1000 <= world.now())
        return refuse(reply, LINK_EXPIRED);
      const { emailId: id, ...scope } = shared;
      // Readers of links queue separately, so they do not delay the project's own reads.
      const owner = `links of ${scope.projectId}`;
      return readInTurn(owner, reply, async () => {
        const found = await messageOf(services, { ...scope, id, keyId: null, domain: null });
        if (!found?.bytes) return refuse(reply, LINK_EXPIRED);
        await nextTurn();
        const { attachments } = inspectMessage(found.bytes);
        const file = attachments.find((attachment) => String(attachment.number) === number);
        return file ? sendFile(reply, owner, file) : refuse(reply, LINK_EXPIRED);
      });
    },
  });
}
