/** Routes of passkeys: the signed-in member's own, and signing in with one. */
import { z } from 'zod';
import { isRefusal, type Refusal } from '../../core/refusals.ts';
import { isId } from '../../database/ids.ts';
import { refuse } from '../../http/errors.ts';
import {
  deleted,
  doc,
  failures,
  idParams,
  idSchema,
  label,
  listOf,
  time,
} from '../../http/schemas.ts';
import type { App, HttpServices } from '../../http/services.ts';
import { BY_SESSION, sessionOf } from '../sessions/http-sessions.ts';
import { sendNewSession } from '../sessions/routes.ts';
import { passwordConfirmation, session as sessionSchema } from '../sessions/schemas.ts';
import { listPasskeys, type Passkey } from './passkey-store.ts';

const TAGS = ['Session'];
const NO_PASSKEY: Refusal = { refused: 'not_found', message: 'You have no passkey with this id.' };

export function registerPasskeyRoutes(app: App, services: HttpServices): void {
  registerList(app, services);
  registerStart(app, services);
  registerAdd(app, services);
  registerRemove(app, services);
  registerStartSignIn(app, services);
  registerSignIn(app, services);
}

function registerList(app: App, { db }: HttpServices): void {
  app.get('/v1/session/passkeys', {
    config: { access: 'session' },
    schema: {
      summary: 'List your passkeys',
      description: 'Lists your passkeys, newest first.',
      operationId: 'listPasskeys',
      tags: TAGS,
      security: BY_SESSION,
      response: { 200: passkeyList, ...failures(400, 404) },
    },
    handler: async (request) => {
      const data = (await listPasskeys(db, sessionOf(request).memberId)).map(passkeyToWire);
      return { object: 'list' as const, data, has_more: false };
    },
  });
}

function registerStart(app: App, { accounts }: HttpServices): void {
  app.post('/v1/session/passkeys/start', {
    config: { access: 'session' },
    schema: {
      summary: 'Begin a passkey',
      description:
        'Returns what the browser needs to create a passkey, and sets a cookie for ten minutes. Requires the password. ' +
        'Returns 409 when the dashboard has no host name.',
      operationId: 'startPasskey',
      tags: TAGS,
      security: BY_SESSION,
      body: passwordConfirmation,
      response: { 200: creation, ...failures(400, 404, 409, 413, 415, 422) },
    },
    handler: async (request, reply) => {
      const session = sessionOf(request);
      const confirmation = { password: request.body.password, isNew: session.isNew };
      const refusal = await accounts.signIn.confirmPassword(session.memberId, confirmation);
      if (refusal !== null) return refuse(reply, refusal);
      const begun = await accounts.passkeys.beginRegistration(session);
      if (isRefusal(begun)) return refuse(reply, begun);
      accounts.sessions.setProgressCookie(reply, begun.progress);
      return { object: 'passkey_creation' as const, ...begun.options };
    },
  });
}

function registerAdd(app: App, { accounts }: HttpServices): void {
  app.post('/v1/session/passkeys', {
    config: { access: 'session' },
    schema: {
      summary: 'Add a passkey',
      description: 'Stores the passkey that the browser has created.',
      operationId: 'addPasskey',
      tags: TAGS,
      security: BY_SESSION,
      body: newPasskey,
      response: { 201: passkey, ...failures(400, 404, 409, 413, 415, 422) },
    },
    handler: async (request, reply) => {
      const { memberId, id: sessionId } = sessionOf(request);
      const progress = accounts.sessions.readProgress(request);
      accounts.sessions.setProgressCookie(reply, null);
      const { body } = request;
      const added = await accounts.passkeys.register({ memberId, sessionId }, body, progress);
      if (isRefusal(added)) return refuse(reply, added);
      return reply.code(201).send(passkeyToWire(added));
    },
  });
}

function registerRemove(app: App, { accounts }: HttpServices): void {
  app.delete('/v1/session/passkeys/:id', {
    config: { access: 'session' },
    schema: {
      summary: 'Remove a passkey',
      description:
        'Removes one of your passkeys. Requires the password. Returns 409 for your last second factor when the ' +
        'installation requires one.',
      operationId: 'removePasskey',
      tags: TAGS,
      security: BY_SESSION,
      params: idParams('passkey'),
      body: passwordConfirmation,
      response: { 200: passkeyDeleted, ...failures(400, 404, 409, 413, 415, 422) },
    },
    handler: async (request, reply) => {
      const { id } = request.params;
      const { memberId, isNew } = sessionOf(request);
      if (!isId(id)) return refuse(reply, NO_PASSKEY);
      const confirmation = { password: request.body.password, isNew };
      const refusal =
        (await accounts.signIn.confirmPassword(memberId, confirmation)) ??
        (await accounts.passkeys.remove(memberId, id));
      if (refusal !== null) return refuse(reply, refusal);
      return { object: 'passkey' as const, id, deleted: true as const };
    },
  });
}

function registerStartSignIn(app: App, { accounts }: HttpServices): void {
  app.post('/v1/session/passkey/start', {
    config: { access: 'sign_in' },
    schema: {
      summary: 'Begin to sign in with a passkey',
      description: 'Returns a challenge for the browser, and sets a cookie for ten minutes.',
      operationId: 'startPasskeySignIn',
      tags: TAGS,
      security: [],
      response: { 200: request, ...failures(400, 409) },
    },
    handler: async (_request, reply) => {
      const begun = accounts.passkeys.beginSignIn();
      if (isRefusal(begun)) return refuse(reply, begun);
      accounts.sessions.setProgressCookie(reply, begun.progress);
      return { object: 'passkey_request' as const, ...begun.options };
    },
  });
}

function registerSignIn(app: App, services: HttpServices): void {
  app.post('/v1/session/passkey', {
    config: { access: 'sign_in' },
    schema: {
      summary: 'Sign in with a passkey',
      description:
        'Starts a session with the response of a passkey, and sets its cookie. It needs no password and no code.',
      operationId: 'signInWithPasskey',
      tags: TAGS,
      security: [],
      body: usedPasskey,
      response: { 200: sessionSchema, ...failures(400, 404, 409, 413, 415, 422) },
    },
    handler: async (httpRequest, reply) => {
      const { passkeys, sessions } = services.accounts;
      const origin = sessions.originOf(httpRequest);
      const progress = sessions.readProgress(httpRequest);
      sessions.setProgressCookie(reply, null);
      const signedIn = await passkeys.signIn(httpRequest.body, origin, progress);
      return sendNewSession(signedIn, services, httpRequest, reply);
    },
  });
}

function passkeyToWire({ id, name, createdAt, lastUsedAt }: Passkey) {
  return {
    object: 'passkey' as const,
    id,
    name,
    created_at: createdAt.toISOString(),
    last_used_at: lastUsedAt?.toISOString() ?? null,
  };
}

/** Base64url of bytes. */
const bytes = (description: string, max: number, example: string) =>
  doc(z.string().min(1).max(max), `${description} In base64url.`, example);

const passkeyName = doc(label(100), 'Your name for it.', 'Phone');
const challenge = bytes('Challenge to sign.', 100, 'Ft3pVbGzvYk2wqS1m0n8cJxHdR5aLuE7TiOQe9ZfK4A');
const host = doc(z.string(), 'Host that the passkey belongs to.', 'mail.acme.com');
const clientData = bytes('`clientDataJSON`.', 8_192, 'eyJ0eXBlIjoid2ViYXV0aG4uZ2V0In0');
const authenticatorData = bytes('`authenticatorData`.', 16_384, 'SZYN5YgOjGh0NBcPZHZgW4');

const passkey = z
  .object({
    object: z.literal('passkey'),
    id: idSchema('The passkey.'),
    name: passkeyName,
    created_at: time('Time of creation.'),
    last_used_at: time('Time of the last sign-in with it, or null before the first.').nullable(),
  })
  .meta({ id: 'Passkey' });

const passkeyList = listOf('PasskeyList', passkey);
const passkeyDeleted = deleted('DeletedPasskey', 'passkey');

const creation = z
  .object({
    object: z.literal('passkey_creation'),
    challenge,
    host,
    user_id: bytes('Id of the member for the authenticator.', 100, 'AZPypHwee3qdUm8OjEshqg'),
    user_email: doc(z.string(), 'Address of the member.', 'jo@acme.com'),
    user_name: doc(z.string(), 'Name of the member.', 'Jo Doe'),
    algorithms: doc(z.array(z.int()), 'COSE numbers of the algorithms, best first.', [-7]),
    known_credential_ids: doc(
      z.array(z.string()),
      'Ids of the credentials that you have already, in base64url.',
      [],
    ),
  })
  .meta({ id: 'PasskeyCreation' });

const newPasskey = z
  .strictObject({
    name: passkeyName,
    client_data: clientData,
    authenticator_data: authenticatorData,
    public_key: bytes('`getPublicKey()`: SubjectPublicKeyInfo.', 2_048, 'MFkwEwYHKoZIzj0CAQYIKoZ'),
    algorithm: doc(z.int(), '`getPublicKeyAlgorithm()`.', -7),
  })
  .meta({ id: 'PasskeyAddition' });

const request = z
  .object({ object: z.literal('passkey_request'), challenge, host })
  .meta({ id: 'PasskeyRequest' });

const usedPasskey = z
  .strictObject({
    credential_id: bytes('`rawId`.', 2_048, 'c2VjcmV0LWlk'),
    client_data: clientData,
    authenticator_data: authenticatorData,
    signature: bytes('`signature`.', 2_048, 'MEUCIQDqbGzvYk2wqS1m0n8'),
  })
  .meta({ id: 'PasskeyResponse' });
