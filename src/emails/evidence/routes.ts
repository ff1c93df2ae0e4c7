/** Routes of evidence: the signed case file of an email, and the public key of the installation that signs it. */
import type { FastifyReply } from 'fastify';
import { isRefusal } from '../../core/refusals.ts';
import { callerOf } from '../../http/access.ts';
import { JSON_TYPE, notFound, refuse } from '../../http/errors.ts';
import { failures, idParams } from '../../http/schemas.ts';
import type { App, HttpServices } from '../../http/services.ts';
import type { EmailRef } from '../email-store.ts';
import { readInTurn, reserveResponse } from '../inspection/http-content-reads.ts';
import { chosenRecipient, NO_SUCH_RECIPIENT, refOf } from '../routes.ts';
import { asPlainJson, caseContent, diagnosisOf, messageContent, readCase } from './case-file.ts';
import { currentReceiptKey, readKeys } from './receipt-key.ts';
import { caseFile, caseFileQuery, receiptKey } from './schemas.ts';
import { publicKeyPem, signCaseFile, signerOf } from './signed-file.ts';

export function registerEvidenceRoutes(app: App, services: HttpServices): void {
  registerCaseFile(app, services);
  registerReceiptKey(app, services);
}

function registerCaseFile(app: App, services: HttpServices): void {
  app.get('/v1/emails/:id/case-file', {
    config: { access: 'any_key', withinDomain: true },
    schema: {
      summary: 'Download the case file of an email',
      description:
        'Returns what the installation knows about the delivery of an email: recipients, events with the SMTP ' +
        'dialogue of every attempt, DNS of the sending domain then, DNS and authentication now, and hashes of ' +
        'the content. The installation signs the file, and `letterhaus verify-receipt` verifies it.',
      operationId: 'getEmailCaseFile',
      tags: ['Emails'],
      params: idParams('email'),
      querystring: caseFileQuery,
      response: { 200: caseFile, ...failures(404, 422) },
    },
    handler: (request, reply) =>
      readInTurn(callerOf(request).projectId, reply, async () => {
        const ref = refOf(request);
        const file = ref && (await makeCaseFile(services, ref, request.query.recipient));
        if (!file) return notFound(reply, 'email');
        if (isRefusal(file)) return refuse(reply, file);
        // Sent as text, so that it keeps the members that were signed.
        const text = `${JSON.stringify(file, null, 2)}\n`;
        reserveResponse(callerOf(request).projectId, reply, Buffer.byteLength(text));
        return (reply as FastifyReply)
          .headers({
            'content-type': JSON_TYPE,
            'content-disposition': `attachment; filename="case-${file.email.id}.json"`,
          })
          .send(text);
      }),
  });
}

/** @returns null when the email does not exist for the caller */
async function makeCaseFile(
  { db, secrets, log, world, config, diagnose, contentOf }: HttpServices,
  ref: EmailRef,
  wanted: string | undefined,
) {
  const facts = await db.transaction((tx) => readCase(tx, ref));
  const recipient = facts && chosenRecipient(facts.email, wanted);
  if (!facts) return null;
  if (!recipient && wanted !== undefined) return NO_SUCH_RECIPIENT;
  const [diagnosis, bytes] = await Promise.all([
    diagnose(ref),
    recipient && contentOf({ ...ref, recipient }),
  ]);
  if (!diagnosis) return null;
  const only = wanted === undefined ? null : recipient!.address;
  const content = asPlainJson({
    made_at: new Date(world.now()).toISOString(),
    installation: { hostname: config.hostname, url: config.publicUrl },
    ...caseContent(facts, only),
    diagnosis: diagnosisOf(diagnosis, only),
    message: recipient && bytes && messageContent(recipient.address, bytes),
  });
  return signCaseFile(content, await currentReceiptKey({ db, secrets, log }));
}

function registerReceiptKey(app: App, { db, secrets, log }: HttpServices): void {
  app.get('/v1/receipt-key', {
    config: { access: 'public' },
    schema: {
      summary: 'Get the key that signs case files',
      description:
        'Returns the public key with which the installation signs case files, and earlier ones. The request ' +
        'needs no key, so anybody can verify a file.',
      operationId: 'getReceiptKey',
      tags: ['Service'],
      security: [],
      response: { 200: receiptKey },
    },
    handler: async () => {
      const { current, all } = await readKeys({ db, secrets, log });
      const [first, ...retired] = all;
      return {
        object: 'receipt_key' as const,
        ...signerOf(current.publicKey),
        created_at: first!.createdAt.toISOString(),
        public_key_pem: publicKeyPem(current.publicKey),
        retired: retired.flatMap(({ publicKey, createdAt, retiredAt }) => {
          if (retiredAt === null) return [];
          const { public_key, fingerprint } = signerOf(publicKey);
          const [created_at, retired_at] = [createdAt.toISOString(), retiredAt.toISOString()];
          return [{ public_key, fingerprint, created_at, retired_at }];
        }),
      };
    },
  });
}
