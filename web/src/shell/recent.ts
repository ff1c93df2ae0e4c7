/**
 * The objects that the member opened last in this tab, in one project and environment. The palette offers them. The
 * list ends with the tab or with signing out (api/session.ts), because its names may be addresses of recipients.
 */
import { useQuery } from '@tanstack/react-query';
import { useMatches } from '@tanstack/react-router';
import { useEffect } from 'react';
import { ApiError } from '../api/client.ts';
import { useApi } from '../api/scope.ts';
import { sessionQuery } from '../api/session.ts';

const ROUTES = {
  email: '/$project/$environment/emails/$id',
  recipient: '/$project/$environment/recipients/$address',
  domain: '/$project/$environment/domains/$id',
  template: '/$project/$environment/templates/$id',
  webhook: '/$project/$environment/webhooks/$id',
} as const;
export type RecentKind = keyof typeof ROUTES;

/** A recipient has its address as id and as name, an email the first of its recipients. */
export type Recent = { kind: RecentKind; id: string; name: string; to?: string | undefined };

const KINDS = Object.keys(ROUTES) as RecentKind[];
const PREFIX = 'letterhaus-recent ';
const KEPT_MAX = 5;
const NOT_FOUND = 404;

/** Remembers each object that the member opens, once its name is read. Forgets one that is gone. */
export function useRemembering(): void {
  const key = useKey();
  const shown = useShown();
  const { name, to, isGone } = useName(shown);
  const { kind, id } = shown ?? {};
  useEffect(() => {
    if (key === null || kind === undefined || id === undefined) return;
    if (name === undefined && !isGone) return;
    const others = keptUnder(key).filter((one) => one.kind !== kind || one.id !== id);
    const all = name === undefined || isGone ? others : [{ kind, id, name, to }, ...others];
    sessionStorage.setItem(key, JSON.stringify(all.slice(0, KEPT_MAX)));
  }, [key, kind, id, name, to, isGone]);
}

/** Returns the objects that were opened last, without the one that is open. */
export function useRecent(): Recent[] {
  const key = useKey();
  const shown = useShown();
  if (key === null) return [];
  return keptUnder(key).filter(({ kind, id }) => kind !== shown?.kind || id !== shown.id);
}

/** Another member who signs in here gets a list of their own. */
function useKey(): string | null {
  const { scope } = useApi();
  const { data: session } = useQuery(sessionQuery);
  return session ? `${PREFIX}${session.member.id} ${scope.project} ${scope.environment}` : null;
}

function keptUnder(key: string): Recent[] {
  return JSON.parse(sessionStorage.getItem(key) ?? '[]') as Recent[];
}

/** Returns the object whose page is open. */
function useShown(): Pick<Recent, 'kind' | 'id'> | null {
  const match = useMatches().at(-1);
  const kind = KINDS.find((one) => ROUTES[one] === match?.fullPath);
  const { id, address } = (match?.params ?? {}) as { id?: string; address?: string };
  const shownId = kind === 'recipient' ? address : id;
  return kind === undefined || shownId === undefined ? null : { kind, id: shownId };
}

/** Returns the name of the object as its page has read it. */
function useName(shown: Pick<Recent, 'kind' | 'id'> | null) {
  const { query } = useApi();
  const pathOf = (kind: RecentKind) => ({
    path: { id: shown?.kind === kind ? shown.id : '' },
  });
  const address = shown?.kind === 'recipient' ? shown.id : '';
  // The page reads, this only takes part.
  const passive = { enabled: false } as const;
  const email = useQuery({ ...query('getEmail', pathOf('email')), ...passive });
  const recipient = useQuery({ ...query('getRecipient', { path: { address } }), ...passive });
  const domain = useQuery({ ...query('getDomain', pathOf('domain')), ...passive });
  const template = useQuery({ ...query('getTemplate', pathOf('template')), ...passive });
  const webhook = useQuery({ ...query('getWebhook', pathOf('webhook')), ...passive });
  const errors = [email, recipient, domain, template, webhook].map(({ error }) => error);
  return {
    name:
      (email.data && (email.data.subject || '(no subject)')) ??
      recipient.data?.address ??
      domain.data?.name ??
      template.data?.name ??
      webhook.data?.url,
    to: email.data?.to[0],
    isGone: errors.some((error) => error instanceof ApiError && error.status === NOT_FOUND),
  };
}
