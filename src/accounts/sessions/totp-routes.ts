/** Routes of the second factor of the signed-in member. Switching it on or off also needs the password. */
import { isRefusal } from '../../core/refusals.ts';
import { findTotp } from '../sign-in/totp-store.ts';
import { notFound, refuse } from '../../http/errors.ts';
import { failures } from '../../http/schemas.ts';
import { passwordConfirmation, recoveryCodes, totpCode, totpSecret, totpState } from './schemas.ts';
import type { App, HttpServices } from '../../http/services.ts';
import { BY_SESSION, sessionOf } from './http-sessions.ts';

const SESSION_SCHEMA = { tags: ['Session'], security: BY_SESSION };

export function registerTotpRoutes(app: App, services: HttpServices): void {
  registerGet(app, services);
  registerRemove(app, services);
  registerBegin(app, services);
  registerConfirm(app, services);
}

function registerGet(app: App, { db }: HttpServices): void {
  app.get('/v1/session/totp', {
    config: { access: 'session' },
    schema: {
      summary: 'Is the second factor on?',
      description:
        'Returns whether the second factor is on, and the number of unused recovery codes.',
      operationId: 'getTotp',
      ...SESSION_SCHEMA,
      response: { 200: totpState, ...failures(400, 404) },
    },
    handler: async (request, reply) => {
      const totp = await findTotp(db, sessionOf(request).memberId);
      if (totp === null) return notFound(reply, 'member');
      const { isEnabled: enabled, codesLeft: left } = totp;
      return { object: 'totp' as const, enabled, recovery_codes_left: left };
    },
  });
}

function registerRemove(app: App, { accounts }: HttpServices): void {
  app.delete('/v1/session/totp', {
    config: { access: 'session' },
    schema: {
      summary: 'Switch the second factor off',
      description:
        'Switches the second factor off and deletes the recovery codes. Requires the password. Returns 409 when the ' +
        'installation requires a second factor and you have no passkey.',
      operationId: 'removeTotp',
      ...SESSION_SCHEMA,
      body: passwordConfirmation,
      response: { 200: totpState, ...failures(400, 404, 409, 413, 415, 422) },
    },
    handler: async (request, reply) => {
      const { memberId, ...session } = sessionOf(request);
      const confirmation = { password: request.body.password, isNew: session.isNew };
      const refusal = await accounts.signIn.confirmPassword(memberId, confirmation);
      if (refusal !== null) return refuse(reply, refusal);
      const kept = await accounts.secondFactor.remove(memberId);
      if (kept !== null) return refuse(reply, kept);
      return { object: 'totp' as const, enabled: false, recovery_codes_left: 0 };
    },
  });
}

function registerBegin(app: App, { accounts }: HttpServices): void {
  app.post('/v1/session/totp', {
    config: { access: 'session' },
    schema: {
      summary: 'Begin a second factor',
      description:
        'Creates a secret for an authenticator app, which is returned only here. The secret takes effect ' +
        'when its first code is confirmed. Returns 409 when the second factor is on already. Requires the ' +
        'password.',
      operationId: 'beginTotp',
      ...SESSION_SCHEMA,
      body: passwordConfirmation,
      response: { 200: totpSecret, ...failures(400, 404, 409, 413, 415, 422) },
    },
    handler: async (request, reply) => {
      const { memberId, ...session } = sessionOf(request);
      const confirmation = { password: request.body.password, isNew: session.isNew };
      const refusal = await accounts.signIn.confirmPassword(memberId, confirmation);
      if (refusal !== null) return refuse(reply, refusal);
      const begun = await accounts.secondFactor.begin(memberId);
      if (isRefusal(begun)) return refuse(reply, begun);
      reply.header('cache-control', 'no-store');
      return { object: 'totp_secret' as const, ...begun };
    },
  });
}

function registerConfirm(app: App, { accounts }: HttpServices): void {
  app.post('/v1/session/totp/confirm', {
    config: { access: 'session' },
    schema: {
      summary: 'Switch the second factor on',
      description:
        'Confirms the first code of the app and switches the second factor on. Returns recovery codes, which ' +
        'are returned only here.',
      operationId: 'confirmTotp',
      ...SESSION_SCHEMA,
      body: totpCode,
      response: { 200: recoveryCodes, ...failures(400, 404, 409, 413, 415, 422) },
    },
    handler: async (request, reply) => {
      const { memberId } = sessionOf(request);
      const confirmed = await accounts.secondFactor.confirm(memberId, request.body.code);
      if (isRefusal(confirmed)) return refuse(reply, confirmed);
      reply.header('cache-control', 'no-store');
      const { recoveryCodes: codes } = confirmed;
      return { object: 'recovery_codes' as const, recovery_codes: codes };
    },
  });
}
