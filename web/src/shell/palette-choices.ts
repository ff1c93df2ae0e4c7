/** The choices of the palette beyond shortcuts: searches, objects by a part of their name, and actions. */
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import type { LucideIcon } from 'lucide-react';
import type { EmailSummary } from '../../../sdk/src/api.ts';
import { useApi, useScope } from '../api/scope.ts';
import { ENVIRONMENTS, sessionQuery } from '../api/session.ts';
import { type Operation, useMay } from '../ui/allowed.tsx';
import { chooseTheme, THEMES } from './theme.ts';

export type Choice = {
  label: string;
  /** A second line. */
  about?: string;
  /** Kind of the object, like "domain". */
  kind?: string;
  id?: string;
  keys?: string;
  icon?: LucideIcon;
  run: () => void;
};

const ID = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/i;
const ADDRESS = /^[^\s"<>@]+@[^\s"<>@]+\.[^\s"<>@]+$/;

/** Searches of emails for the typed text. */
export function useSearches(text: string): Choice[] {
  const scope = useScope();
  const navigate = useNavigate();
  const may = useMay();
  if (text === '') return [];
  if (ID.test(text)) {
    const id = text.toLowerCase();
    const openEmail = (): void =>
      void navigate({ to: '/$project/$environment/emails/$id', params: { ...scope, id } });
    const openRequest = (): void =>
      void navigate({ to: '/$project/$environment/api-log', params: scope, search: { id } });
    const request = { label: `Open the request ${id}`, kind: 'API log', run: openRequest };
    return [
      { label: `Open the email ${text}`, run: openEmail },
      ...(may('getRequest') ? [request] : []),
    ];
  }
  const search = (q: string) => () =>
    void navigate({ to: '/$project/$environment/emails', params: scope, search: { q } });
  const byWords = { label: `Search emails for “${text}”`, run: search(quoted(text)) };
  if (!ADDRESS.test(text)) return [byWords];
  const openRecipient = (): void =>
    void navigate({
      to: '/$project/$environment/recipients/$address',
      params: { ...scope, address: text },
    });
  return [
    { label: `Emails to ${text}`, run: search(`to:${text}`) },
    { label: `Recipient ${text}`, kind: 'recipient', run: openRecipient },
    byWords,
  ];
}

/** A text with an operator is a search as it is written. */
function quoted(text: string): string {
  return /[\s:]/.test(text) && !/^[a-z_]+:\S/i.test(text) ? `"${text.replaceAll('"', '')}"` : text;
}

const SHORTEST = 3;
const EMAILS_SHOWN = 5;
const OF_A_KIND = 4;
const STALE_MS = 60_000;

type Named = { id: string; name: string };

/** Objects whose names have the text as a part: emails, recipients, domains, templates, webhooks, keys, members. */
export function useObjects(text: string): Choice[] {
  const emails = useFoundEmails(text);
  const named = useNamed(text);
  return [...recipientsOf(emails.rows, text).map(emails.recipient), ...emails.choices, ...named];
}

function useFoundEmails(text: string) {
  const api = useApi();
  const navigate = useNavigate();
  const { data } = useQuery({
    ...api.query('listEmails', { query: { q: quoted(text), limit: EMAILS_SHOWN } }),
    enabled: text.length >= SHORTEST && !ID.test(text),
    placeholderData: keepPreviousData,
    staleTime: STALE_MS,
    retry: false,
  });
  const rows = text.length >= SHORTEST ? (data?.data ?? []) : [];
  const choices = rows.map(({ id, subject, to }): Choice => ({
    id,
    label: subject || '(no subject)',
    about: to.join(', '),
    kind: 'email',
    run: () =>
      void navigate({ to: '/$project/$environment/emails/$id', params: { ...api.scope, id } }),
  }));
  const recipient = (address: string): Choice => ({
    label: address,
    kind: 'recipient',
    run: () =>
      void navigate({
        to: '/$project/$environment/recipients/$address',
        params: { ...api.scope, address },
      }),
  });
  return { rows, choices, recipient };
}

/** Addresses of these emails with the text as a part, each once. A whole address has a choice of its own. */
function recipientsOf(emails: readonly EmailSummary[], text: string): string[] {
  const part = text.toLowerCase();
  const all = emails.flatMap(({ to, cc, bcc }) => [...to, ...cc, ...bcc]);
  const matching = all.filter((one) => one.toLowerCase().includes(part) && one !== text);
  return [...new Set(matching)].slice(0, OF_A_KIND);
}

function useNamed(text: string): Choice[] {
  const api = useApi();
  const navigate = useNavigate();
  const may = useMay();
  const isWanted = text.length > 1;
  const limit = { query: { limit: 100 } };
  const read = { staleTime: STALE_MS, retry: false } as const;
  const isAsked = (operation: Operation) => isWanted && may(operation);
  const domains = useQuery({
    ...api.query('listDomains', limit),
    ...read,
    enabled: isAsked('listDomains'),
  });
  const templates = useQuery({
    ...api.query('listTemplates', limit),
    ...read,
    enabled: isAsked('listTemplates'),
  });
  const webhooks = useQuery({
    ...api.query('listWebhooks', limit),
    ...read,
    enabled: isAsked('listWebhooks'),
  });
  const keys = useQuery({
    ...api.query('listApiKeys', limit),
    ...read,
    enabled: isAsked('listApiKeys'),
  });
  const members = useQuery({
    ...api.query('listMembers', limit),
    ...read,
    enabled: isAsked('listMembers'),
  });
  if (!isWanted) return [];
  const params = api.scope;
  const find = (kind: string, all: readonly Named[] | undefined, open: (id: string) => void) =>
    (all ?? [])
      .filter(({ name }) => name.toLowerCase().includes(text.toLowerCase()))
      .slice(0, OF_A_KIND)
      .map(({ id, name }): Choice => ({ id, label: name, kind, run: () => open(id) }));
  return [
    ...find('domain', domains.data?.data, (id) => {
      void navigate({ to: '/$project/$environment/domains/$id', params: { ...params, id } });
    }),
    ...find('template', templates.data?.data, (id) => {
      void navigate({ to: '/$project/$environment/templates/$id', params: { ...params, id } });
    }),
    ...find(
      'webhook',
      webhooks.data?.data.map(({ id, url }) => ({ id, name: url })),
      (id) => {
        void navigate({ to: '/$project/$environment/webhooks/$id', params: { ...params, id } });
      },
    ),
    ...find('API key', keys.data?.data, () => {
      void navigate({ to: '/$project/$environment/api-keys', params });
    }),
    ...find(
      'member',
      members.data?.data.map(({ id, name, email }) => ({ id, name: `${name} (${email})` })),
      () => void navigate({ to: '/$project/$environment/members', params }),
    ),
  ];
}

/** Screens whose dialog for a new object opens on arrival. */
const CREATING = [
  ['Create an API key', 'createApiKey', '/$project/$environment/api-keys'],
  ['Add a domain', 'createDomain', '/$project/$environment/domains'],
  ['Add a webhook', 'createWebhook', '/$project/$environment/webhooks'],
] as const;

/** Actions that belong to no screen: new objects, another project or environment, the theme. */
export function useActions(): Choice[] {
  const scope = useScope();
  const navigate = useNavigate();
  const may = useMay();
  const { data: session } = useQuery(sessionQuery);
  const creating = CREATING.filter(([, operation]) => may(operation)).map(
    ([label, , to]): Choice => ({
      label,
      kind: 'action',
      run: () => void navigate({ to, params: scope, state: { isCreating: true } }),
    }),
  );
  const openEmails = (params: typeof scope) => () =>
    void navigate({ to: '/$project/$environment/emails', params });
  const environments = ENVIRONMENTS.filter((one) => one !== scope.environment).map(
    (environment): Choice => ({
      label: `Switch to the ${environment} environment`,
      kind: 'action',
      run: openEmails({ ...scope, environment }),
    }),
  );
  const projects = (session?.projects ?? [])
    .filter(({ id }) => id !== scope.project)
    .map(({ id, name }): Choice => ({
      id,
      label: `Switch to the project ${name}`,
      kind: 'action',
      run: openEmails({ ...scope, project: id }),
    }));
  const themes = THEMES.map((theme): Choice => ({
    label: theme === 'system' ? 'Theme of the system' : `Theme: ${theme}`,
    kind: 'action',
    run: () => chooseTheme(theme),
  }));
  return [...creating, ...environments, ...projects, ...themes];
}
