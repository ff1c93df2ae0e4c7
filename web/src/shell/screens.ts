/** The screens in the order of the navigation. */
import {
  ArrowLeftRight,
  AtSign,
  Ban,
  ChartNoAxesColumn,
  FileText,
  FolderOpen,
  Globe,
  Inbox,
  KeyRound,
  Layers,
  ListChecks,
  type LucideIcon,
  Mail,
  Webhook,
  ScrollText,
  Settings,
  Stethoscope,
  Users,
} from 'lucide-react';
import { type Operation, useMay } from '../ui/allowed.tsx';
import type { CountName } from './counts.ts';

export const GROUPS = ['Send', 'Observe', 'Configure', 'Operate'] as const;
export type Group = (typeof GROUPS)[number];

type Path =
  | '/overview'
  | '/emails'
  | '/test-inbox'
  | '/templates'
  | '/queue'
  | '/domains'
  | '/api-keys'
  | '/webhooks'
  | '/recipients'
  | '/suppressions'
  | '/members'
  | '/audit-log'
  | '/api-log'
  | '/projects'
  | '/doctor'
  | '/setup'
  | '/settings';

export type ScreenLink = {
  to: `/$project/$environment${Path}`;
  label: string;
  /** Its heading in the navigation; a screen without one stands above all headings. */
  group?: Group;
  icon: LucideIcon;
  /** A number beside it, when there is something to count (counts.ts). */
  count?: CountName;
  /** The second key of the shortcut `g …`. */
  letter: string;
  /** Address of the handbook page about the screen. */
  handbook: string;
  /** The operation without which the screen shows nothing. */
  needs?: Operation;
};

const SCREENS: readonly ScreenLink[] = [
  {
    to: '/$project/$environment/overview',
    label: 'Overview',
    icon: ChartNoAxesColumn,
    letter: 'o',
    handbook: 'stats',
  },
  {
    to: '/$project/$environment/emails',
    label: 'Emails',
    group: 'Send',
    icon: Mail,
    letter: 'e',
    handbook: 'troubleshooting',
  },
  {
    to: '/$project/$environment/templates',
    label: 'Templates',
    group: 'Send',
    icon: FileText,
    letter: 't',
    handbook: 'templates',
  },
  {
    to: '/$project/$environment/test-inbox',
    label: 'Test inbox',
    group: 'Send',
    icon: Inbox,
    letter: 'i',
    handbook: 'sending#test-addresses',
  },
  {
    to: '/$project/$environment/recipients',
    label: 'Recipients',
    group: 'Observe',
    icon: AtSign,
    letter: 'r',
    handbook: 'dashboard',
  },
  {
    to: '/$project/$environment/suppressions',
    label: 'Suppressions',
    group: 'Observe',
    icon: Ban,
    letter: 's',
    handbook: 'suppressions',
  },
  {
    to: '/$project/$environment/api-log',
    label: 'API log',
    group: 'Observe',
    icon: ArrowLeftRight,
    letter: 'l',
    handbook: 'dashboard',
    needs: 'listRequests',
  },
  {
    to: '/$project/$environment/domains',
    label: 'Domains',
    group: 'Configure',
    icon: Globe,
    letter: 'd',
    handbook: 'domains',
  },
  {
    to: '/$project/$environment/api-keys',
    label: 'API keys',
    group: 'Configure',
    icon: KeyRound,
    letter: 'k',
    handbook: 'api',
    needs: 'listApiKeys',
  },
  {
    to: '/$project/$environment/webhooks',
    label: 'Webhooks',
    group: 'Configure',
    icon: Webhook,
    count: 'failing',
    letter: 'w',
    handbook: 'webhooks',
  },
  {
    to: '/$project/$environment/members',
    label: 'Members',
    group: 'Configure',
    icon: Users,
    letter: 'm',
    handbook: 'dashboard#members',
  },
  {
    to: '/$project/$environment/settings',
    label: 'Settings',
    group: 'Configure',
    icon: Settings,
    letter: ',',
    handbook: 'dashboard#sessions',
  },
  {
    to: '/$project/$environment/queue',
    label: 'Queue',
    group: 'Operate',
    icon: Layers,
    count: 'waiting',
    letter: 'q',
    handbook: 'queue',
  },
  {
    to: '/$project/$environment/setup',
    label: 'Setup',
    group: 'Operate',
    icon: ListChecks,
    letter: 'u',
    handbook: 'going-live',
  },
  {
    to: '/$project/$environment/doctor',
    label: 'Doctor',
    group: 'Operate',
    icon: Stethoscope,
    letter: 'h',
    handbook: 'doctor',
    needs: 'getDoctor',
  },
  {
    to: '/$project/$environment/audit-log',
    label: 'Audit log',
    group: 'Operate',
    icon: ScrollText,
    letter: 'a',
    handbook: 'dashboard#audit-log',
    needs: 'listAuditEvents',
  },
  {
    to: '/$project/$environment/projects',
    label: 'Projects',
    group: 'Operate',
    icon: FolderOpen,
    letter: 'p',
    handbook: 'dashboard',
  },
];

/** The screens that this member may read. */
export function useScreens(): readonly ScreenLink[] {
  const may = useMay();
  return SCREENS.filter(({ needs }) => needs === undefined || may(needs));
}
