"""What a cluster's ResourceSlices offer and its ResourceClaims hold, counted. Pure."""
