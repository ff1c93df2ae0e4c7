// Generated from docs/openapi.json by `npm run openapi`.

import type {
  Credentials,
  DeletedPasskey,
  DeletedSession,
  DeletedSnooze,
  DeletedView,
  EmailPreview,
  InvitationAcceptance,
  OidcResponse,
  OidcSignInBegun,
  OwnSessionList,
  OwnerCreation,
  Passkey,
  PasskeyAddition,
  PasskeyCreation,
  PasskeyList,
  PasskeyRequest,
  PasskeyResponse,
  PasswordChange,
  PasswordChanged,
  PasswordConfirmation,
  PasswordReset,
  RecoveryCodes,
  Session,
  SessionEnded,
  SessionsEnded,
  Setup,
  Snooze,
  SnoozeCreation,
  SnoozeList,
  Totp,
  TotpCode,
  TotpSecret,
  View,
  ViewCreation,
  ViewList,
} from '../../../sdk/src/api.ts';

export type SessionOperations = {
  /** Create a preview link for one minute */
  previewEmail: {
    query: Record<never, never>;
    body: undefined;
    result: EmailPreview;
  };
  /** List snoozed findings */
  listSnoozes: {
    query: Record<never, never>;
    body: undefined;
    result: SnoozeList;
  };
  /** Snooze a finding */
  snoozeFinding: {
    query: Record<never, never>;
    body: SnoozeCreation;
    result: Snooze;
  };
  /** End a snooze */
  endSnooze: {
    query: Record<never, never>;
    body: undefined;
    result: DeletedSnooze;
  };
  /** Is there an owner? */
  getSetup: {
    query: Record<never, never>;
    body: undefined;
    result: Setup;
  };
  /** Sign in */
  signIn: {
    query: Record<never, never>;
    body: Credentials;
    result: Session;
  };
  /** Who is signed in? */
  getSession: {
    query: Record<never, never>;
    body: undefined;
    result: Session;
  };
  /** Sign out */
  endSession: {
    query: Record<never, never>;
    body: undefined;
    result: SessionEnded;
  };
  /** Create the owner */
  createOwner: {
    query: Record<never, never>;
    body: OwnerCreation;
    result: Session;
  };
  /** Set a new password with a link */
  resetPassword: {
    query: Record<never, never>;
    body: PasswordReset;
    result: Session;
  };
  /** Change your password */
  changePassword: {
    query: Record<never, never>;
    body: PasswordChange;
    result: PasswordChanged;
  };
  /** List your sessions */
  listSessions: {
    query: Record<never, never>;
    body: undefined;
    result: OwnSessionList;
  };
  /** Sign out everywhere */
  endAllSessions: {
    query: Record<never, never>;
    body: undefined;
    result: SessionsEnded;
  };
  /** Sign out elsewhere */
  endOwnSession: {
    query: Record<never, never>;
    body: undefined;
    result: DeletedSession;
  };
  /** Is the second factor on? */
  getTotp: {
    query: Record<never, never>;
    body: undefined;
    result: Totp;
  };
  /** Switch the second factor off */
  removeTotp: {
    query: Record<never, never>;
    body: PasswordConfirmation;
    result: Totp;
  };
  /** Begin a second factor */
  beginTotp: {
    query: Record<never, never>;
    body: PasswordConfirmation;
    result: TotpSecret;
  };
  /** Switch the second factor on */
  confirmTotp: {
    query: Record<never, never>;
    body: TotpCode;
    result: RecoveryCodes;
  };
  /** Begin to sign in with the identity provider */
  startOidcSignIn: {
    query: Record<never, never>;
    body: undefined;
    result: OidcSignInBegun;
  };
  /** Sign in with the identity provider */
  signInWithOidc: {
    query: Record<never, never>;
    body: OidcResponse;
    result: Session;
  };
  /** List your passkeys */
  listPasskeys: {
    query: Record<never, never>;
    body: undefined;
    result: PasskeyList;
  };
  /** Add a passkey */
  addPasskey: {
    query: Record<never, never>;
    body: PasskeyAddition;
    result: Passkey;
  };
  /** Begin a passkey */
  startPasskey: {
    query: Record<never, never>;
    body: PasswordConfirmation;
    result: PasskeyCreation;
  };
  /** Remove a passkey */
  removePasskey: {
    query: Record<never, never>;
    body: PasswordConfirmation;
    result: DeletedPasskey;
  };
  /** Begin to sign in with a passkey */
  startPasskeySignIn: {
    query: Record<never, never>;
    body: undefined;
    result: PasskeyRequest;
  };
  /** Sign in with a passkey */
  signInWithPasskey: {
    query: Record<never, never>;
    body: PasskeyResponse;
    result: Session;
  };
  /** Accept an invitation */
  acceptInvitation: {
    query: Record<never, never>;
    body: InvitationAcceptance;
    result: Session;
  };
  /** List your views */
  listViews: {
    query: Record<never, never>;
    body: undefined;
    result: ViewList;
  };
  /** Save a view */
  saveView: {
    query: Record<never, never>;
    body: ViewCreation;
    result: View;
  };
  /** Delete a view */
  deleteView: {
    query: Record<never, never>;
    body: undefined;
    result: DeletedView;
  };
};

export const SESSION_OPERATIONS = {
  previewEmail: ['GET', '/v1/emails/{id}/preview'],
  listSnoozes: ['GET', '/v1/snoozes'],
  snoozeFinding: ['PUT', '/v1/snoozes/{id}'],
  endSnooze: ['DELETE', '/v1/snoozes/{id}'],
  getSetup: ['GET', '/v1/session/setup'],
  signIn: ['POST', '/v1/session'],
  getSession: ['GET', '/v1/session'],
  endSession: ['DELETE', '/v1/session'],
  createOwner: ['POST', '/v1/session/owner'],
  resetPassword: ['POST', '/v1/session/reset'],
  changePassword: ['POST', '/v1/session/password'],
  listSessions: ['GET', '/v1/session/all'],
  endAllSessions: ['DELETE', '/v1/session/all'],
  endOwnSession: ['DELETE', '/v1/session/all/{id}'],
  getTotp: ['GET', '/v1/session/totp'],
  removeTotp: ['DELETE', '/v1/session/totp'],
  beginTotp: ['POST', '/v1/session/totp'],
  confirmTotp: ['POST', '/v1/session/totp/confirm'],
  startOidcSignIn: ['POST', '/v1/session/oidc/start'],
  signInWithOidc: ['POST', '/v1/session/oidc'],
  listPasskeys: ['GET', '/v1/session/passkeys'],
  addPasskey: ['POST', '/v1/session/passkeys'],
  startPasskey: ['POST', '/v1/session/passkeys/start'],
  removePasskey: ['DELETE', '/v1/session/passkeys/{id}'],
  startPasskeySignIn: ['POST', '/v1/session/passkey/start'],
  signInWithPasskey: ['POST', '/v1/session/passkey'],
  acceptInvitation: ['POST', '/v1/invitations/accept'],
  listViews: ['GET', '/v1/views'],
  saveView: ['POST', '/v1/views'],
  deleteView: ['DELETE', '/v1/views/{id}'],
} as const;
