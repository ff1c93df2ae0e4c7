/**
 * The choices of the palette beyond shortcuts: searches, objects that were opened last or have a part of the text in
 * their name, and actions.
 */
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import {
  ArrowLeftRight,
  AtSign,
  FileText,
  FlaskConical,
  FolderOpen,
  Globe,
  KeyRound,
  type LucideIcon,
  Mail,
  Monitor,
  Moon,
  Plus,
  Radio,
  Search,
  Send,
  Sun,
  Users,
  Webhook,
} from 'lucide-react';
import type { EmailSummary } from '../../../sdk/src/api.ts';
import { useApi, useScope } from '../api/scope.ts';
import { ENVIRONMENTS, sessionQuery } from '../api/session.ts';
import { type Operation, useMay } from '../ui/allowed.tsx';
import { type Recent, type RecentKind, useRecent } from './recent.ts';
import { chooseTheme, THEME_WORDS, THEMES } from './theme.ts';

/** The groups in their order. Those that are read last stand last, so that what arrives moves nothing. */
export const GROUPS = [
  'Search',
  'Recent',
  'Actions',
  'Screens',
  'On this screen',
  'Project and environment',
  'Theme',
  'Help',
  'Recipients',
  'Emails',
  'Domains',
  'Templates',
  'Webhooks',
  'API keys',
  'Members',
] as const;
export type Group = (typeof GROUPS)[number];

export type Choice = {
  group: Group;
  label: string;
  icon: LucideIcon;
  /** A second line. */
  about?: string;
  /** Its kind, where objects of several stand together. */
  type?: string;
  /** Other words by which it is found. */
  words?: string;
  id?: string;
  keys?: string;
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
    const request: Choice = {
      group: 'Search',
      icon: ArrowLeftRight,
      label: `Open the request ${id}`,
      run: openRequest,
    };
    return [
      { group: 'Search', icon: Mail, label: `Open the email ${text}`, run: openEmail },
      ...(may('getRequest') ? [request] : []),
    ];
  }
  const search = (q: string) => () =>
    void navigate({ to: '/$project/$environment/emails', params: scope, search: { q } });
  const byWords: Choice = {
    group: 'Search',
    icon: Search,
    label: `Search emails for “${text}”`,
    run: search(quoted(text)),
  };
  if (!ADDRESS.test(text)) return [byWords];
  const openRecipient = (): void =>
    void navigate({
      to: '/$project/$environment/recipients/$address',
      params: { ...scope, address: text },
    });
  return [
    { group: 'Search', icon: Search, label: `Emails to ${text}`, run: search(`to:${text}`) },
    { group: 'Search', icon: AtSign, label: `Recipient ${text}`, run: openRecipient },
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
    group: 'Emails',
    icon: Mail,
    id,
    label: subject || '(no subject)',
    about: to.join(', '),
    run: () =>
      void navigate({ to: '/$project/$environment/emails/$id', params: { ...api.scope, id } }),
  }));
  const recipient = (address: string): Choice => ({
    group: 'Recipients',
    icon: AtSign,
    label: address,
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
  const find = (group: Group, all: readonly Named[] | undefined, open: (id: string) => void) =>
    (all ?? [])
      .filter(({ name }) => name.toLowerCase().includes(text.toLowerCase()))
      .slice(0, OF_A_KIND)
      .map(({ id, name }): Choice => {
        return { group, icon: OBJECT_ICONS[group] ?? Search, id, label: name, run: () => open(id) };
      });
  return [
    ...find('Domains', domains.data?.data, (id) => {
      void navigate({ to: '/$project/$environment/domains/$id', params: { ...params, id } });
    }),
    ...find('Templates', templates.data?.data, (id) => {
      void navigate({ to: '/$project/$environment/templates/$id', params: { ...params, id } });
    }),
    ...find(
      'Webhooks',
      webhooks.data?.data.map(({ id, url }) => ({ id, name: url })),
      (id) => {
        void navigate({ to: '/$project/$environment/webhooks/$id', params: { ...params, id } });
      },
    ),
    ...find('API keys', keys.data?.data, () => {
      void navigate({ to: '/$project/$environment/api-keys', params });
    }),
    ...find(
      'Members',
      members.data?.data.map(({ id, name, email }) => ({ id, name: `${name} (${email})` })),
      () => void navigate({ to: '/$project/$environment/members', params }),
    ),
  ];
}

const OBJECT_ICONS: Partial<Readonly<Record<Group, LucideIcon>>> = {
  Domains: Globe,
  Templates: FileText,
  Webhooks: Webhook,
  'API keys': KeyRound,
  Members: Users,
};

const RECENT_ICONS: Readonly<Record<RecentKind, LucideIcon>> = {
  email: Mail,
  recipient: AtSign,
  domain: Globe,
  template: FileText,
  webhook: Webhook,
};
const RECENT_WORDS: Readonly<Record<RecentKind, string>> = {
  email: 'Email',
  recipient: 'Recipient',
  domain: 'Domain',
  template: 'Template',
  webhook: 'Webhook',
};
const RECENT_SHOWN = 4;

/** The objects that the member opened last. */
export function useRecentChoices(): Choice[] {
  const scope = useScope();
  const navigate = useNavigate();
  const open = ({ kind, id }: Recent): void => {
    const params = { ...scope, id };
    const address = { ...scope, address: id };
    if (kind === 'recipient')
      void navigate({ to: '/$project/$environment/recipients/$address', params: address });
    else void navigate({ to: `/$project/$environment/${kind}s/$id`, params });
  };
  return useRecent()
    .slice(0, RECENT_SHOWN)
    .map((one): Choice => {
      const { kind, id, name, to } = one;
      return {
        group: 'Recent',
        icon: RECENT_ICONS[kind],
        id,
        label: name,
        type: to === undefined ? RECENT_WORDS[kind] : `${RECENT_WORDS[kind]} to ${to}`,
        run: () => open(one),
      };
    });
}

/** Screens whose dialog for a new object opens on arrival. */
const CREATING = [
  ['Create an API key', 'createApiKey', '/$project/$environment/api-keys'],
  ['Add a domain', 'createDomain', '/$project/$environment/domains'],
  ['Add a webhook', 'createWebhook', '/$project/$environment/webhooks'],
] as const;

const THEME_ICONS = { system: Monitor, light: Sun, dark: Moon } as const;

/** Actions that belong to no screen: a test email, new objects, another project or environment, the theme. */
export function useActions(): Choice[] {
  const scope = useScope();
  const navigate = useNavigate();
  const may = useMay();
  const { data: session } = useQuery(sessionQuery);
  const test = { ...scope, environment: 'test' } as const;
  const sending: Choice = {
    group: 'Actions',
    icon: Send,
    label: 'Send a test email',
    run: () =>
      void navigate({
        to: '/$project/$environment/setup',
        params: test,
        search: { step: 'first_email' },
      }),
  };
  const creating = CREATING.filter(([, operation]) => may(operation)).map(
    ([label, , to]): Choice => ({
      group: 'Actions',
      icon: Plus,
      label,
      run: () => void navigate({ to, params: scope, state: { isCreating: true } }),
    }),
  );
  const openEmails = (params: typeof scope) => () =>
    void navigate({ to: '/$project/$environment/emails', params });
  const environments = ENVIRONMENTS.filter((one) => one !== scope.environment).map(
    (environment): Choice => ({
      group: 'Project and environment',
      icon: environment === 'test' ? FlaskConical : Radio,
      label: `Switch to the ${environment} environment`,
      run: openEmails({ ...scope, environment }),
    }),
  );
  const projects = (session?.projects ?? [])
    .filter(({ id }) => id !== scope.project)
    .map(({ id, name }): Choice => ({
      group: 'Project and environment',
      icon: FolderOpen,
      id,
      label: `Switch to the project ${name}`,
      run: openEmails({ ...scope, project: id }),
    }));
  const themes = THEMES.map((theme): Choice => ({
    group: 'Theme',
    icon: THEME_ICONS[theme],
    label: THEME_WORDS[theme],
    words: `theme ${theme}`,
    run: () => chooseTheme(theme),
  }));
  const all = [...creating, ...environments, ...projects, ...themes];
  return may('sendEmail') ? [sending, ...all] : all;
}
