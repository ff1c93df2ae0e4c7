/** Recognises requests of the operator of this machine (admin-requests.ts). */
import type { Socket } from 'node:net';
import type { FastifyRequest } from 'fastify';
import type { SessionState } from '../../accounts/sessions/session-store.ts';

const ADMIN_CONNECTIONS = new WeakSet<Socket>();

export function markAdminSocket(socket: Socket): void {
  ADMIN_CONNECTIONS.add(socket);
}

/** Returns whether the operator of this machine sends the request. With a key, it is a request of the key's project. */
export function isFromLocalOperator({
  raw,
  headers,
}: Pick<FastifyRequest, 'raw' | 'headers'>): boolean {
  return headers.authorization === undefined && ADMIN_CONNECTIONS.has(raw.socket);
}

/** Stands for the ids of a member and a key; nothing is stored under it. */
export const NOBODY_ID = '00000000-0000-0000-0000-000000000000';

export function isLocalOperator({ memberId }: Pick<SessionState, 'memberId'>): boolean {
  return memberId === NOBODY_ID;
}
