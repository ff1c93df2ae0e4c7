/** The screens in the order of the navigation. */
import { type LucideIcon, Mail } from 'lucide-react';

export type ScreenLink = {
  to: '/$project/$environment/emails';
  label: string;
  icon: LucideIcon;
  /** Of the shortcut `g …`. */
  letter: string;
};

export const SCREENS: readonly ScreenLink[] = [
  { to: '/$project/$environment/emails', label: 'Emails', icon: Mail, letter: 'e' },
];
